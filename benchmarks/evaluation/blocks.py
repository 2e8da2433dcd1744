"""What a section of the report is made of, as data: a paragraph, a table, a plot. Pure."""

import dataclasses


@dataclasses.dataclass
class Paragraph:
    text: str


@dataclasses.dataclass
class Column:
    """`places`: digits behind the point; None: as the numbers need. `is_text`: begins at the left."""

    title: str
    places: int | None = None
    is_text: bool = False


@dataclasses.dataclass
class Table:
    """A cell is text, a spread (see spread.py), or None: not measured."""

    title: str
    columns: list
    rows: list
    caption: str = ""


@dataclasses.dataclass
class Series:
    """A line with its points, in the order of x. `low` and `high`: the least and most of the runs, where
    y is their median. `others`: the same line of further runs, as pairs of lists."""

    name: str
    x: list
    y: list
    low: list | None = None
    high: list | None = None
    others: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Panel:
    """One pair of axes. `bars`: x are names, and the series stand beside each other."""

    title: str
    x_label: str
    y_label: str
    series: list
    log_x: bool = False
    bars: bool = False
    y_limits: tuple | None = None
    # At these x stand marks with names, such as the rates that were asked for.
    ticks: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Plot:
    """`name`: of its file, without an ending."""

    name: str
    title: str
    caption: str
    panels: list


def as_json(block):
    """A block with its kind, for JSON."""
    return {"kind": type(block).__name__.lower(), **dataclasses.asdict(block)}
