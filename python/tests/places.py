"""Where the tests find what they need: programs, and models as `scripts/test oracle` makes them."""

import csv
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("MILLRACE_BUILD_DIR", ROOT / "build" / "release"))
PROGRAMS = BUILD / "apps"
LEARN_CSV = BUILD / "benchmarks" / "learning" / "learn_csv"
# Models of every kind and their scores of the rows of a file, as tests/exports/write_models.cc has
# written them.
MODELS = pathlib.Path(os.environ.get("MILLRACE_TEST_MODELS", ROOT / "build" / "onnx" / "models"))
FLIGHTS = pathlib.Path(os.environ.get("MILLRACE_TEST_FLIGHTS", ROOT / "build" / "onnx" / "flights-heldout.csv"))


def read_rows(path):
    """The rows of a CSV as dicts of strings."""
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def typed(row):
    """The row as a program would have it: numbers as numbers, empty cells as None."""
    return {name: _typed(cell) for name, cell in row.items()}


def _typed(cell):
    if not cell:
        return None
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            pass
    return cell
