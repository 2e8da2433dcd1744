"""Section 4: consistency models, with and without a straggler."""

import quality
import sets
import straggler
import worker_log
from blocks import Column, Panel, Plot, Series, Table
from job import START_S, Settings
from plan import Case

NAME = "consistency"
TITLE = "4. Consistency models"
WORKERS = 4
MODELS = {sets.QUICK: ("sequential", "bounded:2", "eventual"),
          sets.NORMAL: ("sequential", "bounded:1", "bounded:2", "bounded:8", "eventual"),
          sets.FULL: ("sequential", "bounded:1", "bounded:2", "bounded:8", "eventual")}
MOST_ROWS = {sets.QUICK: 10_000, sets.NORMAL: 120_000, sets.FULL: None}
HIDDEN = 0.1  # of a stream's rows: from there on means are drawn
ROUNDS = 800  # at least, by smaller batches of short streams
POINTS, POINT_ROWS = 40, 250  # of a curve at most; in a point at least
ABOUT = (
    "Sequential: a round ends when all workers have sent their update. Bounded: a worker may be that many rounds "
    "ahead of the slowest. Eventual: nobody waits. Four WorkerApps have a worker each, all with the defaults but "
    "for the batch, and rows come as fast as Kafka takes them. "
    f"The straggler: {straggler.words()}. "
    "Rounds per second are those of the slowest worker, updates per second those of all, both while all have rows "
    "left. The lead is by how many batches the first worker is ahead of the last, after each batch, from the "
    "workers' evaluation logs; the staleness is the largest lead over the slowest worker at which the server has "
    "let one go on, as Watch has it.")


def batch_rows(rows):
    """So that even a short stream has many rounds."""
    return max(1, min(32, rows // (WORKERS * ROUNDS)))


def points(rows):
    """So many that each is the mean of enough rows to say something."""
    return max(4, min(POINTS, rows // POINT_ROWS))


def cases(each, size):
    found = []
    rows = min(each.rows, MOST_ROWS[size] or each.rows)
    for slowed in (False, True):
        for model in MODELS[size]:
            if size == sets.QUICK and slowed and model.startswith("bounded"):
                continue
            rounds = rows / (WORKERS * batch_rows(rows))
            seconds = START_S + max(rows / 20_000, rounds / (100 if slowed else 300))
            params = {"model": model, "straggler": slowed, "rows": rows, "batch_rows": batch_rows(rows)}
            found.append(Case(model + (", straggler" if slowed else ""), params, seconds))
    return found


def measure(bench, each, params):
    done = bench.run(Settings(
        sets.first_rows(each, params["rows"]), each.flags(), WORKERS, WORKERS,
        ["--consistency", params["model"], "--batch-rows", str(params["batch_rows"])],
        worker_logs=True, straggler=params["straggler"]))
    some = worker_log.read(done.logs)
    seconds, rows, losses = worker_log.curve(some, points(params["rows"]))
    return {"seconds": done.seconds, **worker_log.pace(some), "staleness_most": done.summary["staleness_max"],
            **quality.of(done.summary.get("progressive") or {})}, {"seconds": seconds, "rows": rows, "loss": losses}


def settled(x, rows, losses):
    """Without the first rows, whose means say little and spread the axis."""
    begin = next((i for i, count in enumerate(rows) if count >= HIDDEN * rows[-1]), 0)
    return x[begin:], losses[begin:]


def line(measured, name, axis):
    """The curve of the run that took the median time, and those of the others."""
    main = measured.median_run("seconds")
    runs = [settled(run[axis], run["rows"], worker_log.so_far(run["rows"], run["loss"])) for run in measured.series]
    x, y = runs[main]
    return Series(name, x, y, others=[run for i, run in enumerate(runs) if i != main])


def curves(results, axis, label):
    for slowed, title in ((False, "all workers alike"), (True, "with a straggler")):
        series = [line(measured, measured.params["model"], axis) for measured in results.values()
                  if measured.params["straggler"] == slowed]
        yield Panel(title, label, "log loss so far (nats per row)", series)


def blocks(each, results):
    columns = [Column("model"), Column("rounds/s"), Column("updates/s"), Column("lead, median", 1),
               Column("lead, most", 0), Column("staleness, most", 0), Column("seconds"), *quality.columns(each)]
    rows = []
    for name, measured in results.items():
        spreads = measured.spreads()
        rows.append([name, *(spreads.get(key) for key in (
            "rounds_per_s", "updates_per_s", "lead_median", "lead_most", "staleness_most", "seconds")),
            *quality.cells(each, spreads)])
    params = next(iter(results.values())).params
    count, batch = params["rows"], params["batch_rows"]
    yield Table(f"{each.name}: by consistency model", columns, rows,
                f"{count:,} rows in one pass, batches of {batch}. Seconds: of the whole stream. Quality is "
                "progressive: of all rows, each tested before it was learnt. min/median/max of the runs.")
    note = ("At each moment the mean log loss of all rows so far, each tested before it was learnt, in the order in "
            f"which the workers computed them (lower is better), from the first {HIDDEN:.0%} of the rows on. A stream "
            "has easier and harder stretches, at the same rows for all. Thick: the run that took the median time; "
            "thin: the others.")
    yield Plot(f"consistency-time-{each.name}", f"{each.name}: quality over time", note,
               list(curves(results, "seconds", "seconds since the first batch")))
    yield Plot(f"consistency-rows-{each.name}", f"{each.name}: quality over rows", note,
               list(curves(results, "rows", "rows tested so far, of all workers")))
