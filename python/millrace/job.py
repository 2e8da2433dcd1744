"""A job on Kafka: its programs as processes of this machine."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import time
import warnings
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from millrace.model import Model

_POLL_S = 0.1
_FIGURES = ("progressive", "window", "tail", "holdout")


def _flags(settings: Mapping[str, Any] | None) -> list[str]:
    """{"batch_rows": 8, "ids": ["a", "b"]} as --batch-rows 8 --ids a,b; True is a switch."""
    words = []
    for name, value in (settings or {}).items():
        if value is None or value is False:
            continue
        words.append("--" + name.replace("_", "-"))
        if isinstance(value, (list, tuple)):
            words.append(",".join(_item(str(each)) for each in value))
        elif value is not True:
            words.append(str(value))
    return words


def _item(name: str) -> str:
    """As an item of a list: with a comma only in quotes."""
    if "," not in name or name.startswith('"'):
        return name
    return '"' + name.replace('"', '""') + '"'


class Job:
    """Starts, watches and stops a job. As a context manager it stops what is left at its end.

        with millrace.Job("clicks", columns={"label": "clicked", "numeric": ["age"]},
                          topic="impressions") as job:
            ...

    columns, training, source: flags of the programs by their names, with _ for -: what the columns are
    (CsvProducer and TopicSource), how the job learns (ServerApp), and how rows are read (the source).
    Lists are joined by commas; True is a switch.
    topic: TopicSource reads the rows there; or input: CsvProducer reads a file.
    workers: logical workers, hosted by `processes` WorkerApps.
    config: a file for the `--config` of all programs, as of encryption and passwords towards Kafka
    (docs/security.md).
    folder: for logs, state and snapshots; what is there of the same job is continued.
    programs: the folder of the programs; if it is not given, MILLRACE_BIN or PATH.

    Not thread-safe. Programs that are not stopped run on when the interpreter ends.
    """

    def __init__(
        self,
        name: str,
        *,
        columns: Mapping[str, Any],
        topic: str | None = None,
        input: str | os.PathLike[str] | None = None,  # noqa: A002
        training: Mapping[str, Any] | None = None,
        source: Mapping[str, Any] | None = None,
        workers: int = 4,
        processes: int = 1,
        brokers: str = "localhost:9092",
        config: str | os.PathLike[str] | None = None,
        folder: str | os.PathLike[str] | None = None,
        programs: str | os.PathLike[str] | None = None,
    ) -> None:
        """Starts nothing yet. ValueError: neither a topic nor a file, or both; FileNotFoundError: a
        program is not there."""
        if (topic is None) == (input is None):
            raise ValueError("give either topic or input: where the rows come from")
        self.name, self.brokers = name, brokers
        self.folder = pathlib.Path(folder if folder is not None else f"millrace-{name}").resolve()
        self._programs = os.fspath(programs) if programs is not None else os.environ.get("MILLRACE_BIN")
        of_job = [] if config is None else ["--config", os.path.abspath(os.fspath(config))]
        of_job += ["--brokers", brokers, "--job", name]
        common = [*of_job, "--workers", str(workers)]
        self._watch = [self._find("Watch"), *of_job, "--once", "--json"]
        snapshots = ["--snapshot-dir", str(self.folder / "snapshots")]
        self._server = [self._find("ServerApp"), *common, *snapshots]
        data = ["--data-dir", str(self.folder / "server")]
        self._commands = {"server": [*self._server, *data, *_flags(training)]}
        for i in range(processes):
            data = ["--data-dir", str(self.folder / f"worker-{i}")]
            self._commands[f"worker-{i}"] = [self._find("WorkerApp"), *common, *data]
        if topic is not None:
            reads = [self._find("TopicSource"), "--topic", topic]
        else:
            assert input is not None  # since there is no topic
            reads = [self._find("CsvProducer"), "--input", os.path.abspath(os.fspath(input))]
        self._commands["source"] = [*reads, *common, *_flags(columns), *_flags(source)]
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def _find(self, program: str) -> str:
        found = shutil.which(program, path=self._programs)
        if found is None:
            where = self._programs or "the PATH"
            raise FileNotFoundError(
                f"{program} is not in {where}: build it (cmake --build build/release --target {program}), "
                "and name the folder by programs= or the environment variable MILLRACE_BIN"
            )
        return os.path.abspath(found)  # programs run in another folder

    def start(self) -> Self:
        """Starts all programs. They wait for Kafka and for one another."""
        if self._processes:
            raise RuntimeError(f"job {self.name} was started already")
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, command in self._commands.items():
            with open(self._log(name), "ab") as log:
                self._processes[name] = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                    start_new_session=True)  # fmt: skip
        return self

    def _log(self, name: str) -> pathlib.Path:
        return self.folder / f"{name}.log"

    def state(self) -> dict[str, Any]:
        """What `Watch --once --json` says of the job now (docs/figures.md)."""
        done = subprocess.run(self._watch, capture_output=True, text=True, check=False)
        try:
            state: dict[str, Any] = json.loads(done.stdout)
        except json.JSONDecodeError:
            raise RuntimeError(f"Watch failed: {done.stderr.strip()[-500:]}") from None
        return state

    def figures(self) -> Any:
        """A line for each kind of figures that there are: of each row before it was learnt from
        (progressive), the newest of these (window), the last (tail), the rows of `--test` (holdout). A
        pandas DataFrame, or a list of dicts where pandas is not installed. A UserWarning says that the
        model is worse than one that knows nothing of the columns."""
        state = self.state()
        if state.get("worse_than_prior"):
            warnings.warn(f"job {self.name}: {state['worse_than_prior']}", stacklevel=2)
        lines = [{"figures": kind} | {name: value for name, value in state[kind].items()
                                      if not isinstance(value, (dict, list))}
                 for kind in _FIGURES if state.get(kind)]  # fmt: skip
        try:
            import pandas
        except ImportError:
            return lines
        return pandas.DataFrame(lines, columns=None if lines else ["figures"]).set_index("figures")

    def wait(self, timeout: float | None = None) -> Self:
        """Until all programs have ended, as they do at the end of the stream. RuntimeError with the end
        of its log: one has failed, and the others are stopped; TimeoutError."""
        end = None if timeout is None else time.monotonic() + timeout
        while self._check():
            if end is not None and time.monotonic() > end:
                raise TimeoutError(f"job {self.name} has not ended after {timeout:g} s; {self._tails()}")
            time.sleep(_POLL_S)
        return self

    def wait_for_rows(self, rows: int, timeout: float = 60.0) -> Self:
        """Until the job has learnt from so many rows. Errors are those of wait(). While Watch gets no
        answer, as when Kafka is away, this goes on waiting."""
        end = time.monotonic() + timeout
        learnt, problem = 0, ""
        while True:
            try:
                learnt, problem = self.state().get("rows_trained") or 0, ""
            except RuntimeError as error:
                problem = f"{error}; "
            if learnt >= rows:
                return self
            self._check()
            if time.monotonic() > end:
                raise TimeoutError(
                    f"job {self.name} has learnt from {learnt} of {rows} rows after {timeout:g} s; "
                    f"{problem}{self._tails()}"
                )
            time.sleep(_POLL_S)

    def _check(self) -> bool:
        """Whether some program runs; an error if one has failed."""
        for name, process in self._processes.items():
            if process.poll():
                code = process.returncode
                self.stop()
                raise RuntimeError(f"{name} ended with {code}; {self._tail(name)}")
        return bool(self._running())

    def _running(self) -> list[str]:
        return [name for name, process in self._processes.items() if process.poll() is None]

    def _tail(self, name: str) -> str:
        text = self._log(name).read_text(encoding="utf-8", errors="replace")
        return f"the end of {self._log(name)}:\n{text[-1500:]}"

    def _tails(self) -> str:
        return "\n".join(self._tail(name) for name in self._processes)

    def export(self, folder: str | os.PathLike[str], timeout: float | None = None) -> Model:
        """Writes the model of a job that has ended, or as it is now of one that runs, and reads it.
        RuntimeError: the servers cancelled the snapshot; TimeoutError: there is none after `timeout`
        seconds."""
        target = os.path.abspath(os.fspath(folder))
        end = self.folder / "snapshots" / f"{self.name}-end"
        # (While the job runs, what is there is of one that ended earlier.)
        if not self._running() and (end / "manifest.json").exists():
            command = [self._find("ServerApp"), "--from-snapshot", str(end), "--export", target]
        else:
            command = [*self._server, "--export", target]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"no model of job {self.name} was exported after {timeout:g} s") from None
        if done.returncode:
            raise RuntimeError(f"no model was exported: {done.stderr.strip()[-500:]}")
        return Model.load(target)

    def stop(self, timeout: float = 30.0) -> None:
        """Asks the programs that still run to stop, and kills those that have not after `timeout`
        seconds. The job can be continued: by a Job of the same name and folder."""
        running = [process for process in self._processes.values() if process.poll() is None]
        for process in running:
            process.send_signal(signal.SIGTERM)
        end = time.monotonic() + timeout
        for process in running:
            try:
                process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def __enter__(self) -> Self:
        return self if self._processes else self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<millrace.Job {self.name}: {', '.join(self._running()) or 'nothing'} runs>"
