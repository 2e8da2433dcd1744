"""Section 1: Millrace and other learners on one machine, in time and quality."""

import json
import math
import pathlib
import sys

import programs
import quality
import sets
from blocks import Column, Paragraph, Table
from job import START_S, Settings
from plan import Case

NAME = "ground-truth"
TITLE = "1. Ground truth"
HERE = pathlib.Path(__file__).resolve().parent
LIMIT_S = 3600
FROZEN, LIVE = "frozen", "live"
PEERS = {"prior": "class frequencies", "scikit-learn": "scikit-learn, batch",
         "scikit-learn tuned": "scikit-learn, batch, C chosen", "vw": "Vowpal Wabbit", "river": "River"}
# Rows per second of learning, for the plan's estimate: of a row of some 25 features, of a text.
RATES = {"prior": (200_000, 100_000), "scikit-learn": (7_000, 8_000), "scikit-learn tuned": (1_800, 1_500),
         "vw": (28_000, 12_000), "river": (25_000, 5_000)}
# Sets of at most so many rows have the line that is tuned: its four fits take their time.
TUNED = {sets.QUICK: 0, sets.NORMAL: 100_000, sets.FULL: math.inf}
ABOUT = (
    "What does the model lose by being learnt from a stream, in pieces, over Kafka? All learners run on this one "
    "machine and get the same columns; none was tuned, but for the C of one line. Frozen: learnt from the first "
    "four fifths of the rows, tested on the last fifth. Live: the figures are of the same last fifth, but each of "
    "its rows is learnt after it was tested, as in a stream; a batch cannot do that. scikit-learn's "
    "LogisticRegression goes through its rows until it has converged (300 times at most), the others once. "
    "Millrace is CsvProducer, ServerApp and WorkerApps (one per worker, at most two) with the defaults on a broker. "
    "Time is from the file to the last figure; without imports and, of Millrace, without the start of its "
    "processes. Processor time is of all processes, Kafka's broker included.")


def cases(each, size):
    found = []
    for name, rates in RATES.items():
        if name == "scikit-learn tuned" and each.rows > TUNED[size]:
            continue
        for mode in (FROZEN, LIVE):
            if mode == LIVE and name.startswith("scikit-learn"):
                continue
            seconds = 2 + each.rows / rates[1 if each.text else 0]
            found.append(Case(f"{PEERS[name]}, {mode}", {"learner": name, "mode": mode}, seconds))
    for workers in (1, 4):
        for mode in (FROZEN, LIVE):
            if size == sets.QUICK and (workers == 1) != (mode == FROZEN):
                continue
            found.append(Case(f"Millrace, {workers} worker{'s' if workers > 1 else ''}, {mode}",
                              {"learner": "millrace", "workers": workers, "mode": mode}, START_S + each.rows / 25_000))
    return found


def measure(bench, each, params):
    return millrace(bench, each, params) if params["learner"] == "millrace" else peer(bench, each, params)


def cut(each):
    """The first row of the last fifth."""
    return each.rows - each.rows // 5


def millrace(bench, each, params):
    flag = "--freeze-after" if params["mode"] == FROZEN else "--tail-after"
    done = bench.run(Settings(each.path, each.flags(), params["workers"], min(2, params["workers"]),
                              [flag, str(cut(each))]))
    return {"seconds": done.seconds, "cpu_s": sum(done.cpu_s.values()),
            **quality.of(done.summary.get("tail") or {})}, {}


def peer(bench, each, params):
    path = sets.description(each, cut(each) if params["mode"] == FROZEN else None)
    with programs.Programs(bench.folder / "learner") as running:
        running.start("learner", sys.executable, "-B", HERE / "learners.py", params["learner"], path)
        running.wait(["learner"], LIMIT_S)
        found = json.loads(programs.last_line(running.log("learner")))
    return {"seconds": found["seconds"], "cpu_s": found["cpu_s"], **quality.of(found)}, {}


def blocks(each, results):
    for mode, title in ((FROZEN, "learnt from four fifths, tested on the last"),
                        (LIVE, "the last fifth, each row tested and then learnt")):
        rows = []
        for name, measured in results.items():
            if measured.params["mode"] == mode:
                spreads = measured.spreads()
                rows.append([name.rsplit(", ", 1)[0], *quality.cells(each, spreads), spreads["seconds"],
                             spreads["cpu_s"]])
        if rows:
            yield Table(f"{each.name}: {title}", [Column("learner"), *quality.columns(each), Column("seconds"),
                                                  Column("processor seconds")], rows,
                        f"{each.rows:,} rows, {each.rows // 5:,} of them in the last fifth. min/median/max of the "
                        "runs.")
    if each.rows // 5 < 1000:
        yield Paragraph("So few rows say little of quality.")
