"""Rows onto a Kafka topic, from which TopicSource reads them."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import numpy

from millrace import _native, _rows


def send(
    rows: Iterable[Mapping[str, Any]] | Any,
    topic: str,
    brokers: str = "localhost:9092",
    *,
    partitions: int = 1,
    settings: Mapping[str, str] | None = None,
    timeout: float = 30.0,
) -> int:
    """Writes rows to a topic as JSON, and returns how many when the brokers have confirmed them all.

    rows: dicts, or a pandas DataFrame. What is missing (None, NaN, pandas.NA) is null; dates and times
    are written in ISO 8601, and decimal numbers as strings of their digits.
    partitions: of the topic, if it does not exist yet. Rows go to the partitions in turns.
    settings: librdkafka's, such as {"security.protocol": "SSL"}.
    timeout: seconds without an answer of a broker until this is an error.

    Raises ValueError for a row that has no form in JSON, or a setting that is wrong, ConnectionError
    when no broker answers, RuntimeError when a record is refused. Rows before an error may have been
    written: TopicSource counts what is in the topic.
    """
    if isinstance(rows, (Mapping, str, bytes)):
        raise ValueError("rows is one row; give a list of rows: [row]")
    pairs = [(str(name), str(value)) for name, value in (settings or {}).items()]
    writer = _native.TopicSender.open(brokers, topic, pairs, partitions, timeout)
    count = 0
    for row in _dicts(rows):
        try:
            _rows.check_row(row)
            text = json.dumps(_plain(row), ensure_ascii=False)
            value = text.encode("utf-8")
        except (TypeError, ValueError) as error:
            raise ValueError(f"rows[{count}]: {error}") from None
        writer.send(value)
        count += 1
    writer.finish()
    return count


def _dicts(rows: Any) -> Iterator[Mapping[str, Any]]:
    if not _rows.is_frame(rows):
        yield from rows
        return
    names = _rows.names_of(rows) or []
    for cells in zip(*_rows.lists_of(rows, names), strict=True):
        yield dict(zip(names, cells, strict=True))


def _name(key: Any) -> str:
    _rows.check_key(key)
    name: str = key
    return name


def _plain(value: Any) -> Any:
    """The value as json.dumps() takes it."""
    if value is None or isinstance(value, (bool, str, int)):
        return value
    if _rows.is_row(value):
        return {_name(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, Decimal):  # a float has not all of its digits
        return None if value.is_nan() else str(value)
    if isinstance(value, numpy.datetime64):  # in nanoseconds, item() is a whole number
        return None if numpy.isnat(value) else str(value)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if not isinstance(value, float) and hasattr(value, "item"):
        return _plain(value.item())
    if isinstance(value, float):
        if math.isinf(value):
            raise ValueError(f"{value} has no form in JSON")
        return None if math.isnan(value) else float(value)
    raise TypeError(f"a {type(value).__name__} has no form in JSON")
