"""Section 3: how often rows come."""

import statistics

import quality
import sets
import worker_log
from blocks import Column, Panel, Plot, Series, Table
from job import START_S, Settings
from plan import Case

NAME = "frequency"
TITLE = "3. Event frequency"
ABOUT = (
    "CsvProducer sends rows at a fixed rate, from 10 per second to as fast as Kafka takes them, to four workers in "
    "two WorkerApps. Schedule buffer: each worker learns from a row when it comes, and while no rows come once more "
    "from the newest ones, which it keeps; how many it keeps follows the rate (0.3 times its rows per minute, from "
    "128 to 1,024). 'Buffer, skipping' is the same with --skip-rows: rows that come faster than they are learnt "
    "replace those in the buffers, where otherwise they wait in Kafka. Schedule one-pass: each row is learnt once. "
    "Batches have at most 32 rows. Training falls behind where rows are replaced before any update used them, or "
    "wait longer and longer in Kafka: the lag is how many rows no worker had used at the moment at which CsvProducer "
    "had sent its last, by the workers' evaluation logs, and 'caught up' is the time from CsvProducer's end to "
    "ServerApp's (in which programs also end).")
BUFFER, SKIPPING, ONE_PASS = "buffer", "buffer, skipping", "one-pass"
FLAGS = {BUFFER: ["--schedule", "buffer"], SKIPPING: ["--schedule", "buffer", "--skip-rows"],
         ONE_PASS: ["--schedule", "one-pass"]}
WORKERS = 4
RATES = {sets.QUICK: (200,), sets.NORMAL: (10, 30, 100, 300, 1000, 3000, 10_000),
         sets.FULL: (10, 30, 100, 300, 1000, 3000, 10_000, 30_000)}
OTHERS_FROM = 1000  # below it all schedules only wait for rows
SECONDS = {sets.QUICK: 2, sets.NORMAL: 10, sets.FULL: 60}
FEWEST_SECONDS = 2
FEWEST_ROWS = 40  # some for each worker
# Flags of ServerApp by schedule: its defaults.
COEFFICIENT, LEAST, MOST = 0.3, 128, 1024


def target(rows_per_s):
    """The size that a worker's buffer follows, by the rule that ServerApp --help gives."""
    return min(MOST, max(LEAST, COEFFICIENT * 60 * rows_per_s / WORKERS))


def cases(each, size):
    found = []
    for schedule in FLAGS:
        for rate in (*RATES[size], None):
            if schedule != BUFFER and rate is not None and rate < OTHERS_FROM:
                continue
            rows = each.rows if rate is None else min(each.rows, rate * SECONDS[size])
            rows = max(rows, min(FEWEST_ROWS, each.rows))
            if rate is not None and rows < rate * min(FEWEST_SECONDS, SECONDS[size]):
                continue  # the set is too short to show anything at this rate
            name = f"{schedule}, " + ("as fast as it goes" if rate is None else f"{rate:,} rows/s")
            seconds = START_S + rows / (rate or 25_000)
            found.append(Case(name, {"schedule": schedule, "rate": rate, "rows": rows}, seconds))
    return found


def buffer_rows(states):
    """Of the last moment at which all workers had rows to learn from: the median of their buffers."""
    sizes = [[worker["buffer_rows"] for worker in state["logical_workers"]] for state in states
             if state.get("logical_workers")]
    return statistics.median(sizes[-1]) if sizes else None


def measure(bench, each, params):
    rows = params["rows"]
    is_buffer = params["schedule"] != ONE_PASS
    done = bench.run(Settings(sets.first_rows(each, rows), each.flags(), WORKERS, 2,
                              FLAGS[params["schedule"]], params["rate"], worker_logs=True))
    summary = done.summary
    sent_s = done.seconds - done.catch_up_s
    arrived = done.rows_per_s_sent or rows / sent_s
    replaced = summary.get("rows_replaced") or 0
    return {"rows_per_s": arrived, "rounds_per_s": summary["rounds"] / done.seconds,
            "used": (rows - replaced) / rows, "caught_up_s": done.catch_up_s,
            "lag": rows - worker_log.rows_by(worker_log.read(done.logs), done.sent_ms),
            "buffer_rows": buffer_rows(done.states) if is_buffer else None,
            "target": target(arrived) if is_buffer else None,
            **quality.of(summary.get("progressive") or {})}, {}


def points(results, schedule, name, label):
    found = []
    for measured in results.values():
        spreads = measured.spreads()
        if measured.params["schedule"] == schedule and spreads.get(name):
            found.append((spreads["rows_per_s"]["median"], spreads[name]))
    found.sort(key=lambda pair: pair[0])
    return Series(label, [x for x, _ in found], [y["median"] for _, y in found], [y["min"] for _, y in found],
                  [y["max"] for _, y in found])


def panel(results, y_label, lines, **options):
    series = [points(results, schedule, name, label) for schedule, name, label in lines]
    return Panel("", "rows sent per second", y_label, [each for each in series if each.x], log_x=True, **options)


def blocks(each, results):
    columns = [Column("schedule, asked for"), Column("rows sent/s"), Column("rounds/s"), Column("rows used", 3),
               Column("lag, rows", 0), Column("caught up, s", 2), Column("buffer, rows", 0), Column("its target", 0),
               Column("log loss", 4), Column("accuracy", 3)]
    rows = []
    for name, measured in results.items():
        spreads = measured.spreads()
        rows.append([name, *(spreads.get(key) for key in (
            "rows_per_s", "rounds_per_s", "used", "lag", "caught_up_s", "buffer_rows", "target", "log_loss",
            "accuracy"))])
    yield Table(f"{each.name}: by rows per second", columns, rows,
                "Rows used: the share of the rows that some update was computed on. Buffer: the median of the four "
                "workers' buffers at the end; one that is smaller than its target had no more rows yet. Log loss and "
                "accuracy: progressive, of rows tested before they were first used; a slow stream had few rows, which "
                "say little of quality. min/median/max of the runs.")
    yield Plot(f"frequency-{each.name}", f"{each.name}: what follows from how often rows come",
               "Medians over the rows that CsvProducer sent per second, with a bar from the least to the most of the "
               "runs. The last point of a line is as fast as it goes.",
               [panel(results, "rounds per second", [(name, "rounds_per_s", name) for name in FLAGS]),
                panel(results, "rows in a worker's buffer",
                      [(BUFFER, "buffer_rows", "at the end"), (BUFFER, "target", "target by the rate")],
                      y_limits=(0, 1.1 * MOST)),
                panel(results, "share of the rows used", [(name, "used", name) for name in FLAGS],
                      y_limits=(0, 1.05)),
                panel(results, "lag when the last row was sent (rows)", [(name, "lag", name) for name in FLAGS])])
