"""Predictions by a model that a job, or an online learner of this package, has written."""

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy
import numpy.typing

from millrace import _native, _rows

Rows = Any  # Iterable[Mapping[str, Any]] | pandas.DataFrame | numpy.ndarray


class Model:
    """An exported model, read into memory once. Threads may share it: scoring does not hold the
    interpreter's lock.

    Rows are an iterable of dicts, with a member for each of `columns` by its name (in an object in an
    object by both names with a dot between); a pandas DataFrame with these columns; a NumPy array with
    them as fields, or of two dimensions with them in this order. Cells are what they are in the JSON
    that Predictor reads: numbers, strings, booleans, None for what is missing; NaN and pandas.NA
    are missing, too. Other members and columns are not looked at.
    """

    def __init__(self, native: _native.Model) -> None:
        """Use Model.load()."""
        self._native = native

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "Model":
        """Reads a model. FileNotFoundError: there is none; ValueError: it is damaged, with the file."""
        return cls(_native.Model.load(os.fspath(folder)))

    @property
    def columns(self) -> list[str]:
        """The columns that a row must have."""
        return list(self._native.columns)

    @property
    def classes_(self) -> numpy.typing.NDArray[numpy.str_]:
        """The names of the classes, in the order of probabilities; none: a regression."""
        return numpy.array(self._native.classes, dtype=numpy.str_)

    @property
    def description(self) -> dict[str, Any]:
        """The model's own description: `ModelDescription` in messages/exported_model.proto."""
        description: dict[str, Any] = json.loads(self._native.description)
        return description

    def predict_proba(self, rows: Rows) -> numpy.typing.NDArray[numpy.float32]:
        """The probability of each class, a line for each row: to the bit what Predictor answers.
        ValueError with the row and the column: a row that cannot be used; a regression."""
        if not self._native.classes:
            raise ValueError("the model is a regression, which has no probabilities; call predict()")
        return self._scores(rows)

    def predict(self, rows: Rows) -> numpy.typing.NDArray[Any]:
        """The likeliest class of each row, the first of equal ones; of a regression the estimate."""
        scores = self._scores(rows)
        if not self._native.classes:
            return scores[:, 0]
        likeliest: numpy.typing.NDArray[Any] = self.classes_[scores.argmax(axis=1)]
        return likeliest

    def _scores(self, rows: Iterable[Mapping[str, Any]] | Any) -> numpy.typing.NDArray[numpy.float32]:
        if not _rows.is_table(rows):
            return self._native.score_dicts(rows)
        return _rows.score_table(self._native, rows)

    def __repr__(self) -> str:
        kind = f"{len(self._native.classes)} classes" if self._native.classes else "a regression"
        return f"<millrace.Model of {kind}, {len(self._native.columns)} columns>"
