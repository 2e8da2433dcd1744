"""What callers give as rows: a pandas frame, a NumPy array, or dicts."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy
import numpy.typing

from millrace import _native

_ROWS_AT_ONCE = 65_536  # whose cells are Python objects at a time


def is_frame(rows: Any) -> bool:
    """Whether it is a pandas DataFrame, or behaves as one. (pandas need not be there.)"""
    return hasattr(rows, "columns") and hasattr(rows, "iloc")


def is_row(row: Any) -> bool:
    """Whether it is a dict, or another mapping, such as a pandas Series."""
    return isinstance(row, Mapping) or hasattr(row, "keys")


def check_row(row: Any) -> None:
    """ValueError: it is no dict."""
    if not is_row(row):
        raise ValueError(f"it is of the type {type(row).__name__}; a row is a dict of cells by column")


def check_key(key: Any) -> None:
    """ValueError: it is no name of a column."""
    if not isinstance(key, str):
        raise ValueError(
            f"the key {key!r} is of the type {type(key).__name__}; the keys of a row are strings"
        )


def for_each(values: Iterable[Any], call: Callable[[Any], Any]) -> None:
    """Calls with each. A ValueError gets the row as its place."""
    for i, value in enumerate(values):
        try:
            call(value)
        except ValueError as error:
            raise ValueError(f"rows[{i}]: {str(error).removeprefix('rows[0]: ')}") from None


def is_category(values: Any) -> bool:
    """Whether pandas has these values as categories, whatever their type is."""
    return str(getattr(values, "dtype", "")) == "category"


def category_columns(rows: Any) -> list[str]:
    """The columns of a table that are categories in pandas."""
    return [name for name, of in zip(names_of(rows) or [], _columns_of(rows), strict=False) if is_category(of)]


def _columns_of(rows: Any) -> Iterator[Any]:
    return (rows.iloc[:, i] for i in range(rows.shape[1])) if is_frame(rows) else iter(())


def labels_of(labels: Any) -> list[Any]:
    """A label for each row. A frame must have one column."""
    if is_frame(labels):
        if labels.shape[1] != 1:
            raise ValueError(f"the labels are a frame of {labels.shape[1]} columns; give one column")
        labels = labels.iloc[:, 0]
    return as_list(labels)


def as_list(values: Any) -> list[Any]:
    """The values of a column, or labels, as Python objects."""
    if is_category(values):  # whole numbers would become floats where one is missing
        held = getattr(values, "cat", values)
        of_code = as_list(held.categories)
        return [of_code[code] if code >= 0 else None for code in numpy.asarray(held.codes).tolist()]
    if isinstance(values, numpy.ndarray):
        if values.dtype.kind == "M":  # nanoseconds would become whole numbers
            values = values.astype("datetime64[us]")
        values = values.reshape(-1)
    listed: list[Any] = values.tolist() if hasattr(values, "tolist") else list(values)
    return listed


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
    _check_shape(rows, order)
    for name in columns:
        if name not in order:
            raise ValueError(
                f"the array has no names, so its columns are called {', '.join(order)}, and there is no "
                f"{name!r}; give a DataFrame, or these names"
            )
    return [as_list(rows[:, order.index(name)]) for name in columns]


def _check_shape(rows: Any, order: Sequence[str]) -> None:
    if rows.ndim != 2 or rows.shape[1] != len(order):
        raise ValueError(
            f"the array has the shape {rows.shape}; give two dimensions, with the {len(order)} columns "
            f"{', '.join(order)}"
        )


def score_table(
    native: _native.Model | _native.Session, rows: Any, order: Sequence[str] | None = None
) -> numpy.typing.NDArray[numpy.float32]:
    """The native model's scores of a table, some rows at a time."""
    columns = native.columns
    if not is_frame(rows) and not rows.dtype.names:
        _check_shape(rows, columns if order is None else order)
    parts = []
    for begin in range(0, max(1, len(rows)), _ROWS_AT_ONCE):
        part = (rows.iloc if is_frame(rows) else rows)[begin : begin + _ROWS_AT_ONCE]
        parts.append(native.score_lists(lists_of(part, columns, order), len(part), begin))
    return parts[0] if len(parts) == 1 else numpy.concatenate(parts)


def cell_of(row: Mapping[str, Any], name: str) -> Any:
    """A cell of a dict, or, of a name with dots, of a dict in it; None: it is not there. ValueError: it
    is not there, and a key is no string."""
    if name in row:
        return row[name]
    for i, letter in enumerate(name):
        inner = row.get(name[:i]) if letter == "." else None
        if isinstance(inner, Mapping) and (found := cell_of(inner, name[i + 1 :])) is not None:
            return found
    for key in row.keys():  # noqa: SIM118: of a Series these are not its values
        check_key(key)
    return None


def cells_of(rows: Iterable[Mapping[str, Any]], name: str) -> list[Any]:
    """The same of dicts. The error has the row."""
    cells: list[Any] = []
    for_each(rows, lambda row: cells.append(cell_of(row, name)))
    return cells
