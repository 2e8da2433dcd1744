"""A figure of several runs: its least, median and most, as a number and as text."""

import statistics


def spread(values):
    """Of the runs that have the figure: {"min", "median", "max", "runs"}; None where none has it."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return {"min": min(known), "median": statistics.median(known), "max": max(known),
            "runs": len(known)}


def digits_of(most, places=None):
    """Digits behind the point: `places`, or as many as leave about three that say something."""
    if places is not None:
        return places
    most = abs(most)
    return 0 if most >= 100 else 1 if most >= 10 else 2 if most >= 1 else 3


def number(value, places=None):
    """One number as text."""
    return f"{value:,.{digits_of(value, places)}f}"


def text(of, places=None):
    """min/median/max; the one number and the count of runs, where all have it to these digits."""
    if of is None:
        return "–"
    digits = digits_of(of["max"], places)
    parts = [f"{of[name]:,.{digits}f}" for name in ("min", "median", "max")]
    if len(set(parts)) == 1:
        return f"{parts[0]} ({of['runs']} equal)" if of["runs"] > 1 else f"{parts[0]} (1 run)"
    return "/".join(parts)
