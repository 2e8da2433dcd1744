"""Parameters of a trainer of one's own, on Millrace's servers."""

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy
import numpy.typing

from millrace import _native

Array = numpy.typing.NDArray[numpy.float32]


class Member(NamedTuple):
    """A process that has told MasterApp of itself (docs/nodes.md)."""

    role: str  # of trainers of this library: trainer
    rank: int  # in its role, as they came
    instance: str
    address: str  # of trainers of this library: trainer-0 and so on, by their number
    state: str  # live, dead or left


class Param:
    """A parameter and its gradient. Both arrays are the library's own memory: write into them."""

    __slots__ = ("_handle", "data", "grad", "id", "name", "version")

    def __init__(self, name: str, registered: tuple[int, _native.Param, Array, Array]) -> None:
        self.name = name
        self.id, self._handle, self.data, self.grad = registered
        # Of data: the steps that this trainer had made when it was read.
        self.version = 0

    def __setattr__(self, name: str, value: Any) -> None:
        # param.grad += x is read, added to and set again; another array would not be seen.
        if name in ("data", "grad") and getattr(self, name, value) is not value:
            raise AttributeError(f"param.{name} stays the same array: write param.{name}[...] = x")
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        return f"<millrace.Param {self.name} {self.data.shape}>"


class Table:
    """Rows of a table, by their ids: those that get_rows has read last. The arrays are the library's own memory.

    Where get_rows reads another number of rows than before, rows and grad are other arrays.
    """

    __slots__ = ("_handle", "grad", "id", "ids", "name", "rows", "version", "width")

    def __init__(self, name: str, width: int, registered: tuple[int, _native.Table]) -> None:
        self.name = name
        self.width = width
        self.id, self._handle = registered
        self.ids: numpy.typing.NDArray[numpy.uint64] = numpy.zeros(0, numpy.uint64)
        self.rows: Array = numpy.zeros((0, width), numpy.float32)
        self.grad: Array = numpy.zeros((0, width), numpy.float32)  # zeros after get_rows
        # Of rows: the steps that this trainer had made when they were read.
        self.version = 0

    def __setattr__(self, name: str, value: Any) -> None:
        # As of Param: table.grad += x is set again. What get_rows sets comes past this.
        if name in ("rows", "grad") and hasattr(self, name) and getattr(self, name) is not value:
            raise AttributeError(f"table.{name} stays the same array: write table.{name}[...] = x")
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        return f"<millrace.Table {self.name} {self.width}>"


class ParameterManager:
    """A trainer of a job, whose parameters are on the servers: ServerApp --model external.

    Register each parameter, in the same order in all trainers; put first values; then, until steps() says
    that it is enough: get (or collect) what the step needs, update what it changes, step; in the end leave.
    docs/parameter-manager.md says what each call does, and which of them wait.

    job: its name. trainers: how many there are (ServerApp --workers); trainer: which one this is, from 0.
    epoch: ServerApp --job-epoch. master: MasterApp --master-address, for barrier and members.
    settings: librdkafka's, such as {"security.protocol": "SSL"}.
    answers_tls: cert, key and ca, PEM files, for answers that come straight from servers on other machines
    (as WorkerApp's --answers-tls-cert and so on); answers_insecure: also without mutual TLS, in a network
    that you trust.
    timeout: seconds that a call may wait; 0: as long as it takes. It may be made again.

    Threads may share it: their calls are made one after the other, and the rows of a table are those of the call that
    came last. A forked process must open one of its own.

    What the library has to tell (a broker that is away, how answers come) goes to logging: the logger "millrace", INFO.

    Raises ValueError for what cannot be right (shapes, numbers that are none, arrays of other types), ConnectionError
    when no broker answers, TimeoutError, and RuntimeError for what cannot be now or in this job. Ctrl-C ends waits.
    """

    def __init__(
        self,
        job: str,
        *,
        brokers: str = "localhost:9092",
        trainer: int = 0,
        trainers: int = 1,
        epoch: int = 1,
        master: str = "",
        settings: Mapping[str, str] | None = None,
        timeout: float = 0.0,
        answers_tls: Sequence[str] | None = None,
        answers_insecure: bool = False,
    ) -> None:
        cert, key, ca = answers_tls or ("", "", "")
        answers = (str(cert), str(key), str(ca), answers_insecure)
        pairs = [(str(name), str(value)) for name, value in (settings or {}).items()]
        self._trainer = _native.Trainer.open(brokers, job, epoch, trainers, trainer, master, pairs, timeout, answers)
        self._params: list[Param] = []

    def __iter__(self) -> Iterator[Param]:
        """The registered parameters."""
        return iter(self._params)

    def register(
        self,
        name: str,
        shape: int | Sequence[int] = (),
        handler: str = "",
        *,
        learning_rate_multiplier: float = 1.0,
        decay_multiplier: float = 1.0,
    ) -> Param:
        """handler: sgd, momentum, adagrad, adam, ftrl, add or assign; "": the optimizer of ServerApp."""
        extents = _extents(name, shape)
        param = Param(name, self._trainer.register(name, extents, handler, learning_rate_multiplier, decay_multiplier))
        self._params.append(param)
        return param

    def register_table(
        self,
        name: str,
        width: int,
        handler: str = "",
        *,
        scale: float = 0.0,
        learning_rate_multiplier: float = 1.0,
        decay_multiplier: float = 1.0,
    ) -> Table:
        """A table of rows, each of so many numbers. scale: their first values are drawn from [-scale, scale]."""
        registered = self._trainer.register_table(
            name, width, handler, learning_rate_multiplier, decay_multiplier, scale
        )
        return Table(name, width, registered)

    def put(self, param: Param, values: numpy.typing.ArrayLike | None = None) -> None:
        """data, or these values, become the parameter's, if nobody has put it before.

        Values, as gradients, are numbers or truths, which become float32; complex numbers, times, objects and strings
        are a ValueError.
        """
        if values is not None:
            param.data[...] = _shaped(param, values)
        self._trainer.put(param._handle)

    def get(self, param: Param) -> Array:
        """Reads the values that the next step is made of into data, which it returns."""
        param.version = self._trainer.get(param._handle)
        return param.data

    def update(self, param: Param, gradient: numpy.typing.ArrayLike | None = None) -> None:
        """Adds grad, or this gradient, to the open step."""
        if gradient is not None:
            param.grad[...] = _shaped(param, gradient)
        self._trainer.update(param._handle)

    def get_rows(self, table: Table, ids: numpy.typing.ArrayLike) -> Array:
        """Reads these rows, with the values that the next step is made of, into table.rows, which it returns."""
        wanted = _ids(table, ids)
        return _taken(table, wanted, self._trainer.get_rows(table._handle, wanted))

    def collect_rows(self, table: Table, ids: numpy.typing.ArrayLike) -> Array:
        """Waits for the answer to the last step, and reads as get_rows does."""
        wanted = _ids(table, ids)
        return _taken(table, wanted, self._trainer.collect_rows(table._handle, wanted))

    def want_rows(self, table: Table, ids: numpy.typing.ArrayLike) -> None:
        """The answer to the open step is to bring these rows, which the next one reads: one round trip."""
        self._trainer.want_rows(table._handle, _ids(table, ids))

    def update_rows(self, table: Table, gradient: numpy.typing.ArrayLike | None = None) -> None:
        """Adds table.grad, or this gradient, of the rows that were read, to the open step; of equal ids the sum."""
        if gradient is not None:
            array = _numbers(f"the table {table.name}", gradient)
            if array.shape != table.grad.shape:
                raise ValueError(f"{table.grad.shape[0]} rows of {table.name} were read, of {table.width} numbers, and "
                                 f"the gradient has the shape {array.shape}")  # fmt: skip
            table.grad[...] = array
        self._trainer.update_rows(table._handle)

    def step(self, weight: float = 1.0) -> int:
        """Ends the open step, whose sums weigh so much, and sends it; how many steps were made."""
        return self._trainer.step(weight)

    def collect(self, param: Param) -> Array:
        """Waits for the answer to the last step, and reads as get does."""
        param.version = self._trainer.collect(param._handle)
        return param.data

    def steps(self) -> int:
        """How many steps this trainer has made, in this process and those before."""
        return self._trainer.steps()

    def shard(self, param: Param) -> list[tuple[int, int, int]]:
        """Which numbers of the parameter are on which shard: (shard, begin, end). MasterApp reshard changes that."""
        return self._trainer.shard(param.id)

    def barrier(self, name: str, trainers: int = 0) -> None:
        """Waits until all live trainers have called it with this name, so many at least; 0: all of the job."""
        self._trainer.barrier(name, trainers)

    def members(self) -> list[Member]:
        """Who has told MasterApp of itself, by role and rank, with this trainer."""
        return [Member(*fields) for fields in self._trainer.members()]

    def leave(self) -> None:
        """No further step of this trainer will come; waits until all servers know."""
        self._trainer.leave()


def _taken(table: Table, ids: numpy.typing.NDArray[numpy.uint64], read: tuple[int, Array, Array]) -> Array:
    version, rows, grad = read
    rows, _ = _kept(table, "rows", rows), _kept(table, "grad", grad)
    table.ids, table.version = ids.copy(), version
    return rows


def _kept(table: Table, name: str, array: Array) -> Array:
    """The table's array, which is this one from now on, unless it is of the same memory already."""
    before: Array = getattr(table, name)
    if numpy.may_share_memory(array, before):
        return before
    object.__setattr__(table, name, array)
    return array


def _ids(table: Table, ids: numpy.typing.ArrayLike) -> numpy.typing.NDArray[numpy.uint64]:
    array = numpy.asarray(ids)
    if array.ndim != 1 or (array.size > 0 and (array.dtype.kind not in "iu" or array.min() < 0)):
        raise ValueError(f"the table {table.name}: give ids as whole numbers from 0 in one dimension")
    return numpy.ascontiguousarray(array, numpy.uint64)


def _extents(name: str, shape: int | Sequence[int]) -> list[int]:
    try:
        extents = [operator.index(extent) for extent in (shape if isinstance(shape, Iterable) else [shape])]
    except TypeError:
        raise ValueError(f"the parameter {name}: give its shape as whole numbers, not {shape!r}") from None
    # (The library refuses those that it is given for what 64 bits do not hold.)
    return [max(-(2**63), min(extent, 2**63 - 1)) for extent in extents]


def _numbers(what: str, values: numpy.typing.ArrayLike) -> numpy.typing.NDArray[Any]:
    """As an array that NumPy casts to float32 with nothing lost but digits."""
    array = numpy.asarray(values)
    if not numpy.can_cast(array.dtype, numpy.float32, "same_kind"):
        raise ValueError(f"{what}: give real numbers or truths, not an array of the type {array.dtype}")
    return array


def _shaped(param: Param, values: numpy.typing.ArrayLike) -> numpy.typing.NDArray[Any]:
    array = _numbers(f"the parameter {param.name}", values)
    # (NumPy would repeat what is smaller.)
    if array.shape != param.data.shape:
        raise ValueError(f"the parameter {param.name} has the shape {param.data.shape}, not {array.shape}")
    return array
