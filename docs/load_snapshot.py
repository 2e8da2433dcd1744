#!/usr/bin/env python3
"""Loads a snapshot of Millrace into NumPy arrays.

    load_snapshot.py FOLDER [WEIGHTS.npy]

prints what is in it, and compares its dense parameters with a --weights-file if one is given. As a
module: `weights, ids, rows = load("snapshots/flights-1763771234567")`.
"""

import json
import pathlib
import sys

import numpy


def load(folder):
    """The dense parameters, and the embedding rows: ids, and a row of `rows` for each."""
    folder = pathlib.Path(folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    shards = [part["shard"] for part in manifest["parts"]]
    weights = numpy.concatenate([numpy.load(folder / f"weights-{s}.npy") for s in shards])
    if not (folder / "embedding-ids-0.npy").exists():
        return weights, numpy.zeros(0, "u8"), numpy.zeros((0, 0), "f4")
    ids = numpy.concatenate([numpy.load(folder / f"embedding-ids-{s}.npy") for s in shards])
    rows = numpy.concatenate([numpy.load(folder / f"embedding-values-{s}.npy") for s in shards])
    return weights, ids, rows


def main():
    weights, ids, rows = load(sys.argv[1])
    print(f"{weights.size} dense parameters, {ids.size} embedding rows of {rows.shape[1]} floats")
    if len(sys.argv) > 2:
        saved = numpy.load(sys.argv[2]).ravel()
        if not numpy.array_equal(weights[: saved.size], saved):
            sys.exit(f"{sys.argv[2]} has other weights")
        print(f"{sys.argv[2]}: the same weights")


if __name__ == "__main__":
    main()
