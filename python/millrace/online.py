"""Learning row by row in one process, without Kafka: the same updates as those of a job.

The classes have the methods of River (learn_one, predict_one) and of scikit-learn (partial_fit,
predict_proba), and fit in a scikit-learn Pipeline where scikit-learn is installed.
"""

import copy
import inspect
import json
import numbers
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy
import numpy.typing

from millrace import _native, _rows
from millrace._columns import CATEGORICAL, Columns

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
except ImportError:

    class BaseEstimator:  # type: ignore[no-redef]  # instead of what was not imported
        """What scikit-learn's has of it, where it is not installed."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """The arguments of the constructor."""
            del deep
            names = [name for name in inspect.signature(type(self).__init__).parameters if name != "self"]
            return {name: getattr(self, name) for name in names}

        def set_params(self, **params: Any) -> Any:
            """Sets arguments of the constructor; ValueError for another name."""
            for name, value in params.items():
                if name not in self.get_params():
                    raise ValueError(f"{name!r} is no parameter of {type(self).__name__}")
                setattr(self, name, value)
            return self

    class ClassifierMixin:  # type: ignore[no-redef]  # the same
        """Nothing."""

    class RegressorMixin:  # type: ignore[no-redef]  # the same
        """Nothing."""


_MOST_CLASS_WEIGHT = 1e6  # as a job has it

_LabelledRow = tuple[dict[str, Any], Any]


def _class_key(label: Any) -> float | str:
    """By which labels are the same class: as numbers, or as text."""
    text = _native.cell_text(label).strip(" \t")
    if not text:
        raise ValueError("a label is missing")
    try:
        number = float(text)
    except ValueError:
        return text
    return number if numpy.isfinite(number) else text


def _in_order(keys: Iterable[float | str]) -> list[float | str]:
    """As a job orders classes: by their numbers if all are numbers, else by their bytes."""
    keys = list(keys)
    if all(isinstance(key, float) for key in keys):
        return sorted(keys)
    return sorted(keys, key=lambda key: str(key).encode())


class _Online(BaseEstimator):
    """What both learners have in common.

    _session: the native learner; None: not begun. _kept: the rows so far with their labels, while what
    they show of columns and classes may still change; None: no longer.
    """

    numeric: Sequence[str] | None
    categorical: Sequence[str] | None
    booleans: Sequence[str]
    text: Sequence[str]
    ids: Sequence[str]
    times: Sequence[str]
    scaling: bool
    categorical_buckets: int | None
    text_buckets: int | None
    first_rows: int
    label: str

    # Made by _start(), before which there are no _columns.
    _columns: Columns
    _session: _native.Session | None
    _kept: list[_LabelledRow] | None
    _is_stale: bool  # something is known that _session was not made with
    _order: list[str] | None  # of the columns of an array without names

    # What the two learners do differently.
    def _see_label(self, label: Any) -> bool:
        raise NotImplementedError

    def _set_class(self, label: Any) -> None:
        raise NotImplementedError

    def _is_complete(self) -> bool:
        raise NotImplementedError

    def _session_settings(self) -> tuple[dict[str, Any], dict[str, Any], list[float], bool]:
        raise NotImplementedError

    def partial_fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Learns from the rows, in their order."""
        raise NotImplementedError

    # ---- one row at a time, as River has it ----

    def learn_one(self, x: Mapping[str, Any], y: Any) -> None:
        """Learns from a row. ValueError with the column: nothing is learnt."""
        self._start()
        kept = self._kept
        if kept is None:
            assert self._session is not None  # or the rows would still be kept
            self._set_class(y)
            self._session.learn_dict(x, y)
            return
        _rows.check_row(x)
        row = copy.deepcopy(dict(x))
        known = self._known()
        kept.append((row, y))
        try:
            self._is_stale = self._see_label(y) or self._is_stale
            self._is_stale = self._columns.see_row(row) or self._is_stale
            if len(kept) >= self.first_rows:
                self._check_all_known()
            if self._session is not None and not self._is_stale:
                self._session.learn_dict(row, y)
            else:
                self._begin_again(kept)
            if len(kept) >= self.first_rows:
                self._end_of_first_rows()
        except Exception:
            kept.pop()
            vars(self).update(known)
            raise

    def _known(self) -> dict[str, Any]:
        """What rows have shown, by attributes: to be put back when the next one is refused."""
        return {"_columns": self._columns.copy(), "_is_stale": self._is_stale}

    def _check_all_known(self) -> None:
        """ValueError: settings name what no row has shown. Later rows show nothing."""

    def _start(self) -> None:
        if getattr(self, "_columns", None) is None:
            self._columns = Columns(
                self.numeric,
                self.categorical,
                {"booleans": self.booleans, "text": self.text, "ids": self.ids, "times": self.times},
            )
            self._session = None
            self._kept = []
            self._is_stale = False
            self._order = None

    def _forget(self) -> None:
        """The next _start() begins anew."""
        vars(self).pop("_columns", None)

    def _begin_again(self, kept: list[_LabelledRow]) -> None:
        """As if what is known now had been known from the first row on."""
        if not self._columns:
            return
        session = self._make_session()
        if not self._is_complete():  # there is nothing to learn yet, but a row must be one
            session.learn_dict(*kept[-1])
            return
        for row, label in kept:
            session.learn_dict(row, label)
        self._session, self._is_stale = session, False

    def _make_session(self) -> _native.Session:
        spec, training, weights, balanced = self._session_settings()
        spec = {**self._columns.spec(), **spec, "label": self.label}
        for field in ("categorical_buckets", "text_buckets"):
            if getattr(self, field) is not None:
                spec[field] = getattr(self, field)
        training["scaling"] = "RUNNING" if self.scaling else "NONE"
        return _native.Session.make(json.dumps(spec), json.dumps(training), weights, balanced)

    def _end_of_first_rows(self) -> None:
        if self._session is None:
            raise ValueError(self._why_not_begun())
        self._kept = None

    def _why_not_begun(self) -> str:
        if not self._columns:
            return "the rows so far have no column with a value; give numeric=[...] or categorical=[...]"
        return "the rows so far are of one class; give all of them: classes=[...]"

    # ---- many rows, as scikit-learn has it ----

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Forgets all, then learns from the rows once, in their order."""
        self._forget()
        return self.partial_fit(X, y)

    def _learn_rows(self, rows: Any, labels: Any) -> Self:
        labels = _rows.labels_of(labels)
        self._start()
        if not _rows.is_table(rows):
            rows = list(rows)
            if rows and not _rows.is_row(rows[0]):
                rows = numpy.asarray(rows, dtype=object)
        if isinstance(rows, list):
            _rows.for_each(rows, _rows.check_row)
        elif _rows.names_of(rows) is None and rows.ndim != 2:
            raise ValueError(f"rows have the shape {rows.shape}; give two dimensions")
        if len(rows) != len(labels):
            raise ValueError(f"there are {len(rows)} rows and {len(labels)} labels")
        if self._kept:  # learn_one() has begun
            self._learn_each(rows, labels, list(self._kept))
            return self
        session = self._session
        is_first = session is None
        try:
            if session is None:
                session = self._begin_with(rows, labels)
            _rows.for_each(labels, self._set_class)
            session.learn_lists(labels, self._lists(rows, session.columns))
        except Exception:
            if is_first:
                self._forget()
            raise
        return self

    def _learn_each(self, rows: Any, labels: list[Any], kept: list[_LabelledRow]) -> None:
        """kept: what is put back when a row is refused."""
        known = self._known()
        try:
            for name in _rows.category_columns(rows):
                self._is_stale = self._columns.see(name, [], CATEGORICAL) or self._is_stale
            pairs = zip(self._dicts(rows), labels, strict=True)
            _rows.for_each(pairs, lambda pair: self.learn_one(*pair))
        except Exception:
            vars(self).update(known, _kept=kept, _session=None)
            self._begin_again(kept)
            raise

    def _begin_with(self, rows: Any, labels: list[Any]) -> _native.Session:
        """All of these rows show what there is; later ones change nothing."""
        _rows.for_each(labels, self._see_label)
        if isinstance(rows, list):
            _rows.for_each(rows, self._columns.see_row)
        else:
            names = _rows.names_of(rows)
            if names is None:
                names = [f"x{i}" for i in range(rows.shape[1])]
            elif _rows.is_frame(rows):
                self.feature_names_in_ = numpy.array(names, dtype=object)
            self._order = names
            categories = _rows.category_columns(rows)
            for name, values in zip(names, _rows.lists_of(rows, names, self._order), strict=True):
                self._columns.see(name, values, CATEGORICAL if name in categories else None)
            self.n_features_in_ = len(names)
        if not (self._is_complete() and self._columns):
            raise ValueError(self._why_not_begun())
        self._check_all_known()
        self._session = self._make_session()
        self._kept = None
        return self._session

    def _lists(self, rows: Any, columns: Sequence[str]) -> list[list[Any]]:
        if isinstance(rows, list):
            return [_rows.cells_of(rows, name) for name in columns]
        return _rows.lists_of(rows, columns, self._order)

    def _dicts(self, rows: Any) -> Iterable[Mapping[str, Any]]:
        if isinstance(rows, list):
            return rows
        names = _rows.names_of(rows) or self._order or [f"x{i}" for i in range(rows.shape[1])]
        lists = _rows.lists_of(rows, names, names)
        return (dict(zip(names, cells, strict=True)) for cells in zip(*lists, strict=True))

    def _scores(self, rows: Any) -> numpy.typing.NDArray[numpy.float32]:
        session = self._begun()
        if session is None:
            raise ValueError(f"this {type(self).__name__} has learnt nothing yet; call fit() or learn_one()")
        if not _rows.is_table(rows):
            rows = list(rows)
            if not rows or _rows.is_row(rows[0]):
                return session.score_dicts(rows)
            rows = numpy.asarray(rows, dtype=object)
        return _rows.score_table(session, rows, self._order)

    def _begun(self) -> _native.Session | None:
        return None if getattr(self, "_columns", None) is None else self._session

    def __sklearn_is_fitted__(self) -> bool:
        return self._begun() is not None

    # ---- what was learnt ----

    @property
    def columns_(self) -> dict[str, Any]:
        """The columns by their roles, as `Job(columns=...)` takes them."""
        self._start()
        columns: dict[str, Any] = {"label": self.label}
        columns |= {kind: names for kind, names in self._columns.features().items() if names}
        if "times" in columns:
            columns["time_features"] = columns.pop("times")
        if self.categorical_buckets is not None and {"categorical", "time_features"} & columns.keys():
            columns["categorical_buckets"] = self.categorical_buckets
        if self.text_buckets is not None and "text" in columns:
            columns["text_buckets"] = self.text_buckets
        return columns | self._label_columns()

    def _label_columns(self) -> dict[str, Any]:
        """What `columns_` says of the label."""
        raise NotImplementedError

    def figures(self) -> dict[str, Any]:
        """How good the predictions were, each made before its row was learnt: a job's progressive
        figures (docs/figures.md). `worse_than_prior` says in words that the learner is worse than one
        that knows nothing of the columns, and what to do; None: it is not."""
        session = self._begun()
        return {"rows": 0} if session is None else session.figures()

    def save(self, folder: str | os.PathLike[str], name: str = "python") -> None:
        """Writes the model as jobs do: Model.load() and Predictor read it. A model that is there is
        replaced. `name` stands in it as the job's. ValueError: nothing was learnt yet."""
        session = self._begun()
        if session is None:
            raise ValueError("nothing was learnt yet, so there is no model to save")
        session.save(os.fspath(folder), name)


class OnlineClassifier(ClassifierMixin, _Online):
    """Logistic regression of any number of classes that learns row by row and needs no learning rate:
    what a job of one worker learns (docs/learning.md).

    Columns and their types are found in the first rows: numbers, booleans, dates and times, and
    strings, which are categories. Or they are given: `numeric` and `categorical` (with crosses, "A*B"),
    `booleans`, `text` (hashed words), `ids` (categories that have rows of their own) and `times`. If
    `numeric` or `categorical` is given, others are not looked for.

    With learn_one(), what the first `first_rows` rows show counts as known from the beginning: the
    learner keeps them, and learns them again when they show a new column, type or class. Afterwards new
    columns are not looked at, and a new class is a ValueError; give `classes` if some are rare. fit()
    and the first partial_fit() look at all of their rows instead. A column that a dict has not is
    missing in that row.

    class_weight: None, "balanced", or a dict of factors by class, 0 to 1e6; a class that is not in it
    has 1, and one in it that the first rows have not is a ValueError. scaling: whether numbers are
    standardised by what was seen so far.
    """

    def __init__(
        self,
        *,
        numeric: Sequence[str] | None = None,
        categorical: Sequence[str] | None = None,
        booleans: Sequence[str] = (),
        text: Sequence[str] = (),
        ids: Sequence[str] = (),
        times: Sequence[str] = (),
        classes: Sequence[Any] | None = None,
        class_weight: Mapping[Any, float] | str | None = None,
        scaling: bool = True,
        categorical_buckets: int | None = None,
        text_buckets: int | None = None,
        first_rows: int = 1000,
        label: str = "label",
    ) -> None:
        self.numeric = numeric
        self.categorical = categorical
        self.booleans = booleans
        self.text = text
        self.ids = ids
        self.times = times
        self.classes = classes
        self.class_weight = class_weight
        self.scaling = scaling
        self.categorical_buckets = categorical_buckets
        self.text_buckets = text_buckets
        self.first_rows = first_rows
        self.label = label

    def _start(self) -> None:
        if getattr(self, "_columns", None) is None:
            self._labels: dict[float | str, Any] = {}
            for label in () if self.classes is None else self.classes:
                self._labels.setdefault(_class_key(label), label)
            self._in_order: list[Any] = []  # the classes of _session
        super()._start()

    def _known(self) -> dict[str, Any]:
        return super()._known() | {"_labels": dict(self._labels), "_in_order": self._in_order}

    def _see_label(self, label: Any) -> bool:
        key = _class_key(label)
        if key in self._labels:
            return False
        if self.classes is not None:
            self._set_class(label)
        self._labels[key] = label
        return True

    def _set_class(self, label: Any) -> None:
        if _class_key(label) not in self._labels:
            known = ", ".join(repr(each) for each in self._labels.values())
            raise ValueError(
                f"{label!r} is no class; known are {known}. Give all classes when you begin: classes=[...]"
            )

    def _is_complete(self) -> bool:
        return len(self._labels) >= 2

    def _session_settings(self) -> tuple[dict[str, Any], dict[str, Any], list[float], bool]:
        order = _in_order(self._labels)
        self._in_order = [self._labels[key] for key in order]
        names = [_native.cell_text(label) for label in self._in_order]
        while len(names) < 2:  # not complete
            names.append(f"{''.join(names)} or another")
        spec = {"classes": names}
        if self.class_weight is None or self.class_weight == "balanced":
            return spec, {}, [], self.class_weight == "balanced"
        if isinstance(self.class_weight, str):
            raise ValueError(f'class_weight is {self.class_weight!r}; give "balanced", or a dict')
        for label, factor in self.class_weight.items():
            if not (isinstance(factor, numbers.Real) and 0 <= factor <= _MOST_CLASS_WEIGHT):
                raise ValueError(f"class_weight of {label!r} is {factor!r}; give a number of 0 to 1e6")
        if self.classes is not None:
            self._check_all_known()
        factors = {_class_key(label): float(factor) for label, factor in self.class_weight.items()}
        weights = [factors.get(key, 1.0) for key in order]
        if self._is_complete() and not any(weights):
            raise ValueError("class_weight leaves no class to learn from; give one of them more than 0")
        return spec, {}, weights + [1.0] * (len(names) - len(weights)), False

    def _check_all_known(self) -> None:
        for label in self.class_weight if isinstance(self.class_weight, Mapping) else ():
            if _class_key(label) not in self._labels:
                known = ", ".join(repr(each) for each in self._labels.values())
                raise ValueError(
                    f"class_weight has {label!r}, which is no class; known are {known}. If it is rare, give "
                    "all classes when you begin: classes=[...]"
                )

    def _label_columns(self) -> dict[str, Any]:
        if not self._is_complete():
            return {}
        return {"classes": [_native.cell_text(self._labels[key]) for key in _in_order(self._labels)]}

    @property
    def classes_(self) -> numpy.typing.NDArray[Any]:
        """The classes, in the order of probabilities."""
        labels = getattr(self, "_in_order", [])
        kinds = {type(label) for label in labels}
        return numpy.array(labels) if len(kinds) == 1 else numpy.array(labels, dtype=object)

    def predict_proba_one(self, x: Mapping[str, Any]) -> dict[Any, float]:
        """The probability of each class. Before a second class is known, those of the rows so far."""
        if getattr(self, "_columns", None) is None:
            return {}
        if self._session is None:
            return {self._labels[_class_key(label)]: 1.0 for _, label in (self._kept or ())[-1:]}
        scores = self._session.score_dicts([x])[0]
        return dict(zip(self._in_order, scores.tolist(), strict=True))

    def predict_one(self, x: Mapping[str, Any]) -> Any:
        """The likeliest class, the first of equal ones; None before the first row."""
        scores = self.predict_proba_one(x)
        return max(scores, key=lambda label: scores[label]) if scores else None

    def partial_fit(self, X: Any, y: Any, classes: Sequence[Any] | None = None) -> Self:  # noqa: N803
        """Learns from the rows, in their order. It makes no difference how rows are cut into calls.
        `classes`: as in the constructor, if this is the first call. An error learns nothing."""
        self._start()
        if classes is not None and self._session is None:
            for label in classes:
                self._labels.setdefault(_class_key(label), label)
        return self._learn_rows(X, y)

    def predict_proba(self, X: Any) -> numpy.typing.NDArray[numpy.float32]:  # noqa: N803
        """The probability of each of classes_, a line for each row."""
        return self._scores(X)

    def predict(self, X: Any) -> numpy.typing.NDArray[Any]:  # noqa: N803
        """The likeliest class of each row."""
        likeliest: numpy.typing.NDArray[Any] = self.classes_[self._scores(X).argmax(axis=1)]
        return likeliest


class OnlineRegressor(RegressorMixin, _Online):
    """Linear regression that learns row by row and needs no learning rate: what a job of one worker
    learns with `--regression` (docs/learning.md). Columns are as those of OnlineClassifier.

    loss: "squared" leads to the mean, "absolute" to the median, "huber" to the mean without the
    outliers, which count linearly from `huber_limit` times the mean absolute error on.
    """

    def __init__(
        self,
        *,
        numeric: Sequence[str] | None = None,
        categorical: Sequence[str] | None = None,
        booleans: Sequence[str] = (),
        text: Sequence[str] = (),
        ids: Sequence[str] = (),
        times: Sequence[str] = (),
        loss: str = "squared",
        huber_limit: float = 1.7,
        scaling: bool = True,
        categorical_buckets: int | None = None,
        text_buckets: int | None = None,
        first_rows: int = 1000,
        label: str = "label",
    ) -> None:
        self.numeric = numeric
        self.categorical = categorical
        self.booleans = booleans
        self.text = text
        self.ids = ids
        self.times = times
        self.loss = loss
        self.huber_limit = huber_limit
        self.scaling = scaling
        self.categorical_buckets = categorical_buckets
        self.text_buckets = text_buckets
        self.first_rows = first_rows
        self.label = label

    def _see_label(self, label: Any) -> bool:
        return False

    def _set_class(self, label: Any) -> None:
        pass

    def _is_complete(self) -> bool:
        return True

    def _session_settings(self) -> tuple[dict[str, Any], dict[str, Any], list[float], bool]:
        if self.loss not in ("squared", "absolute", "huber"):
            raise ValueError(f'loss is {self.loss!r}; give "squared", "absolute" or "huber"')
        if not (isinstance(self.huber_limit, numbers.Real) and 1e-3 <= self.huber_limit <= 1e6):
            raise ValueError(f"huber_limit is {self.huber_limit!r}; give a number of 0.001 to 1e6")
        training = {"loss": self.loss.upper(), "huber_limit": self.huber_limit}
        return {"regression": True}, training, [], False

    def _label_columns(self) -> dict[str, Any]:
        return {"regression": True}

    def predict_one(self, x: Mapping[str, Any]) -> float:
        """The estimate; 0 before the first row."""
        session = self._begun()
        return 0.0 if session is None else float(session.score_dicts([x])[0, 0])

    def partial_fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Learns from the rows, in their order. It makes no difference how rows are cut into calls.
        An error learns nothing."""
        return self._learn_rows(X, y)

    def predict(self, X: Any) -> numpy.typing.NDArray[numpy.float32]:  # noqa: N803
        """The estimates of the rows."""
        return self._scores(X)[:, 0]
