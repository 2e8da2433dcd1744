"""Which columns rows have, and of which type: as they were given, or as the first rows show."""

import copy
import datetime
import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Self

from millrace._rows import check_key, for_each

NUMERIC, BOOLEAN, CATEGORICAL, TIME = "numeric", "booleans", "categorical", "times"
_TIME_PARTS = ("hour", "weekday", "month")  # and the days, which are a number


def _kind_of(name: str, value: Any) -> str | None:
    """Of a value; None: it is missing, and says nothing."""
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        if value.dtype.kind == "M":  # nanoseconds would become whole numbers
            value = value.astype("datetime64[us]")
        value = value.item()
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, numbers.Integral):  # which may be too large for a float
        return NUMERIC
    if isinstance(value, (numbers.Real, Decimal)):
        return None if math.isnan(value) else NUMERIC
    if isinstance(value, str):
        return CATEGORICAL
    if isinstance(value, datetime.date):
        return TIME
    raise ValueError(
        f"{name!r} is of the type {type(value).__name__}; a cell is a string, a number, True, False, "
        "None, a date or a time"
    )


def _together(before: str, now: str) -> str:
    if before == now:
        return now
    return NUMERIC if {before, now} == {BOOLEAN, NUMERIC} else CATEGORICAL


def _term(name: str) -> str:
    """A name as it must stand among terms (features/name_list.h): with a star only in quotes."""
    if "*" not in name and not name.startswith('"') and name.strip(" \t") == name:
        return name
    return '"' + name.replace('"', '""') + '"'


class Columns:
    """The columns of an online learner."""

    def __init__(
        self,
        numeric: Sequence[str] | None,
        categorical: Sequence[str] | None,
        others: Mapping[str, Iterable[str]],
    ) -> None:
        """numeric and categorical None: found. others: by "booleans", "text", "ids" and "times"."""
        self._given = {"numeric": list(numeric or []), "categorical": list(categorical or [])}
        self._given |= {kind: list(names) for kind, names in others.items()}
        self._finds = numeric is None and categorical is None
        self._found: dict[str, str | None] = {}

    def copy(self) -> Self:
        """Of what is known now."""
        twin = copy.copy(self)
        twin._found = dict(self._found)
        return twin

    def see_row(self, row: Mapping[str, Any], prefix: str = "") -> bool:
        """Whether the row shows what was not known: a column, or another type of one."""
        changed = False
        for key, value in row.items() if self._finds else ():
            check_key(key)
            if isinstance(value, Mapping):
                changed = self.see_row(value, f"{prefix}{key}.") or changed
            else:
                name = f"{prefix}{key}"
                changed = (self._looks_at(name) and self._see(name, _kind_of(name, value))) or changed
        return changed

    def see(self, name: str, values: Iterable[Any], kind: str | None = None) -> bool:
        """The same of a column: by its values, and by the type that it is said to have."""
        if not self._looks_at(name):
            return False
        before = self._found.get(name)
        self._see(name, kind)
        for_each(values, lambda value: self._see(name, _kind_of(name, value)))
        return self._found[name] != before

    def _looks_at(self, name: str) -> bool:
        return self._finds and not any(name in names for names in self._given.values())

    def _see(self, name: str, kind: str | None) -> bool:
        before = self._found.get(name)
        now = before if kind is None else kind if before is None else _together(before, kind)
        self._found[name] = now
        return now != before

    def features(self) -> dict[str, list[str]]:
        """By the fields of FeatureSpec, which are flags of CsvProducer and TopicSource, too."""
        named = {kind: list(names) for kind, names in self._given.items()}
        for name, kind in self._found.items():
            if kind is not None:
                named[kind].append(_term(name) if kind == CATEGORICAL else name)
        return named

    def spec(self) -> dict[str, list[str]]:
        """The same, complete: with what booleans and times stand for."""
        spec = self.features()
        spec["numeric"] += [name for name in spec["booleans"] if name not in spec["numeric"]]
        for name in spec["times"]:
            spec["numeric"].append(f"{name}.days")
            spec["categorical"] += [_term(f"{name}.{part}") for part in _TIME_PARTS]
        return spec

    def __bool__(self) -> bool:
        return any(self.features().values())
