"""What callers give as rows: a pandas frame, a NumPy array, or dicts."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy


def is_frame(rows: Any) -> bool:
    """Whether it is a pandas DataFrame, or behaves as one. (pandas need not be there.)"""
    return hasattr(rows, "columns") and hasattr(rows, "iloc")


def as_list(values: Any) -> list[Any]:
    """The values of a column, or labels, as Python objects."""
    if isinstance(values, numpy.ndarray):
        if values.dtype.kind == "M":  # nanoseconds would become whole numbers
            values = values.astype("datetime64[us]")
        return values.reshape(-1).tolist()
    return values.tolist() if hasattr(values, "tolist") else list(values)


def names_of(rows: Any) -> list[str] | None:
    """The columns of a table; None: it has no names."""
    if is_frame(rows):
        return [str(name) for name in rows.columns]
    if isinstance(rows, numpy.ndarray) and rows.dtype.names:
        return list(rows.dtype.names)
    return None


def is_table(rows: Any) -> bool:
    """Whether lists_of() takes it."""
    if isinstance(rows, (Mapping, str, bytes)):
        raise ValueError("rows is one row; give a list of rows: [row]")
    return is_frame(rows) or isinstance(rows, numpy.ndarray)


def lists_of(rows: Any, columns: Sequence[str], order: Sequence[str] | None = None) -> list[list[Any]]:
    """A list for each of the columns. `order` names the columns of an array without names; without
    it they are `columns`."""
    if is_frame(rows):
        found = names_of(rows) or []
        for name in columns:
            if found.count(name) != 1:
                what = "has no column" if name not in found else "has twice the column"
                raise ValueError(f"the frame {what} {name!r}; it has {', '.join(found)}")
        return [as_list(rows.iloc[:, found.index(name)]) for name in columns]
    if rows.dtype.names:
        for name in columns:
            if name not in rows.dtype.names:
                raise ValueError(f"the array has no field {name!r}; it has {', '.join(rows.dtype.names)}")
        return [as_list(rows[name]) for name in columns]
    order = list(columns if order is None else order)
    if rows.ndim != 2 or rows.shape[1] != len(order):
        raise ValueError(
            f"the array has the shape {rows.shape}; give two dimensions, with the {len(order)} columns "
            f"{', '.join(order)}"
        )
    return [as_list(rows[:, order.index(name)]) for name in columns]


def cell_of(row: Mapping[str, Any], name: str) -> Any:
    """A cell of a dict, or, of a name with dots, of a dict in it; None: it is not there."""
    if name in row:
        return row[name]
    for i, letter in enumerate(name):
        inner = row.get(name[:i]) if letter == "." else None
        if isinstance(inner, Mapping) and (found := cell_of(inner, name[i + 1 :])) is not None:
            return found
    return None
