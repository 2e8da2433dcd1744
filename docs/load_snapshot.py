#!/usr/bin/env python3
"""Loads a snapshot of Millrace into NumPy arrays.

    load_snapshot.py FOLDER [WEIGHTS.npy]

prints what is in it, and compares its dense parameters with a --weights-file if one is given. (Not
of a job that learns row by row, --update online: its parameters are those of several learners that
race, and the weights file has what they predict by together.) As a module:
`weights, ids, rows, admitted = load("snapshots/flights-1763771234567")`.

In a job with --admit-after N a row with fewer than N updates is not admitted yet: its updates are
counted, and its values are zeros here. A server answers a request for it with its initial values, a
function of the job's seed and the id, as for an id that is not in the files. Do not predict with the
zeros: use `ids[admitted], rows[admitted]`.

Of trainers of one's own (--model external) all tables are in the same files. `table, id = tables(ids)`
says of each row which of the job's tables it is of, counted from 0, and the id that the trainer has
given; all rows are as wide as the widest table's, with zeros behind what a table has.
"""

import json
import pathlib
import sys

import numpy


def caught_up(manifest, rows, slots, missed):
    """The rows as they are now: shrunk by the L2 penalties that each has missed since it was last named. Of an
    online learner (--on-drift forget): with the curvature, the last of each weight's eight numbers, divided by 64
    for each time that the row has missed."""
    if manifest["training"].get("update", {}).get("kind") == "ONLINE":
        rows = rows.copy()
        rows[:, 7::8] *= numpy.exp2(-6 * missed)[:, None]
        return rows
    missed = missed[:, None]
    optimizer = manifest["training"].get("optimizer", {})
    if optimizer.get("kind", "ADAGRAD") == "ADAGRAD":
        missed = missed / (numpy.sqrt(slots) + optimizer.get("epsilon", 1e-8))
    return (rows * numpy.exp(-missed)).astype("f4")


def load(folder):
    """The dense parameters, and the embedding rows: ids, a row of `rows` for each, and whether it is
    admitted; one that is not has zeros, where a server has its initial values."""
    folder = pathlib.Path(folder)
    if not (folder / "manifest.json").exists():  # it is written last
        raise FileNotFoundError(f"no snapshot in {folder}, or one that was not completed")
    manifest = json.loads((folder / "manifest.json").read_text())
    shards = [part["shard"] for part in manifest["parts"]]
    weights = numpy.concatenate([numpy.load(folder / f"weights-{s}.npy") for s in shards])
    if not (folder / "embedding-ids-0.npy").exists():
        return weights, numpy.zeros(0, "u8"), numpy.zeros((0, 0), "f4"), numpy.zeros(0, "?")
    def of_rows(what):
        return numpy.concatenate([numpy.load(folder / f"embedding-{what}-{s}.npy") for s in shards])

    ids, rows, updates = (of_rows(what) for what in ("ids", "values", "updates"))
    if any(part.get("shrinkage") for part in manifest["parts"]):
        # Each row of its own shard's: another may have made another number of steps.
        missed = [part["shrinkage"] - numpy.load(folder / f"embedding-shrinkage-{part['shard']}.npy")
                  if part.get("shrinkage") else numpy.zeros(int(part.get("rows", 0)))
                  for part in manifest["parts"]]
        rows = caught_up(manifest, rows, of_rows("slots"), numpy.concatenate(missed))
    admit_after = manifest["training"].get("embedding", {}).get("admit_after", 1)
    return weights, ids, rows, updates >= admit_after


def tables(ids):
    """Of rows of trainers' tables: the number of each row's table, and its id in that."""
    return (ids >> numpy.uint64(56)).astype(int), ids & numpy.uint64(2**56 - 1)


def main():
    try:
        weights, ids, rows, admitted = load(sys.argv[1])
    except FileNotFoundError as error:
        sys.exit(str(error))
    print(f"{weights.size} dense parameters, {ids.size} embedding rows of {rows.shape[1]} floats, "
          f"{ids.size - admitted.sum()} of them not admitted yet")
    if len(sys.argv) > 2:
        manifest = json.loads((pathlib.Path(sys.argv[1]) / "manifest.json").read_text())
        if manifest["training"].get("update", {}).get("kind") == "ONLINE":
            print(f"{sys.argv[2]} is not compared: the job learns row by row")
            return
        saved = numpy.load(sys.argv[2]).ravel()
        if not numpy.array_equal(weights[: saved.size], saved):
            sys.exit(f"{sys.argv[2]} has other weights")
        print(f"{sys.argv[2]}: the same weights")


if __name__ == "__main__":
    main()
