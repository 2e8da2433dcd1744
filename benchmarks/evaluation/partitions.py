"""Section 2: one partition against several."""

import quality
import sets
from blocks import Column, Panel, Plot, Series, Table
from job import START_S, Settings
from plan import Case

NAME = "partitions"
TITLE = "2. One partition against several"
ABOUT = (
    "Each logical worker has a partition of the rows and learns from it alone; the server adds up what they send. "
    "What does dividing the rows cost in quality, and what does it bring in rows per second? Two WorkerApps share "
    "the workers (a single worker is in one), all with the defaults. Rows per second are those of the whole stream, "
    "from the start of CsvProducer to the end of ServerApp; more workers than processors cannot be faster by "
    "computing more, only by larger rounds. Quality is progressive: of all rows, each tested before it was learnt.")
WORKERS = {sets.QUICK: (1, 4), sets.NORMAL: (1, 2, 4, 8, 16), sets.FULL: (1, 2, 4, 8, 16)}


def cases(each, size):
    return [Case(f"{workers} worker{'s' if workers > 1 else ''}", {"workers": workers}, START_S + each.rows / 25_000)
            for workers in WORKERS[size]]


def measure(bench, each, params):
    workers = params["workers"]
    done = bench.run(Settings(each.path, each.flags(), workers, min(2, workers)))
    return {"rows_per_s": each.rows / done.seconds, "rounds": done.summary["rounds"],
            "rounds_per_s": done.summary["rounds"] / done.seconds, "cpu_s": sum(done.cpu_s.values()),
            **quality.of(done.summary.get("progressive") or {})}, {}


def series(results, name, label=""):
    """A figure over the workers."""
    found = [(measured.params["workers"], measured.spreads().get(name)) for measured in results.values()]
    found = sorted((x, each) for x, each in found if each)
    return Series(label, [x for x, _ in found], [each["median"] for _, each in found],
                  [each["min"] for _, each in found], [each["max"] for _, each in found])


def panel(results, name, label):
    ticks = [(measured.params["workers"], str(measured.params["workers"])) for measured in results.values()]
    return Panel("", "logical workers (partitions of input-data)", label, [series(results, name)], log_x=True,
                 ticks=ticks)


def blocks(each, results):
    columns = [Column("workers"), Column("rows/s"), Column("rounds/s"), Column("processor seconds"),
               *quality.columns(each)]
    rows = []
    for measured in results.values():
        spreads = measured.spreads()
        rows.append([str(measured.params["workers"]), spreads["rows_per_s"], spreads["rounds_per_s"],
                     spreads["cpu_s"], *quality.cells(each, spreads)])
    yield Table(f"{each.name}: by the number of workers", columns, rows,
                f"{each.rows:,} rows in one pass, sequential, batches that grow up to 128 rows. min/median/max of the runs.")
    yield Plot(f"partitions-{each.name}", f"{each.name}: workers, speed and quality",
               "Medians, with a bar from the least to the most of the runs. Left: rows of the whole stream per second. "
               "Right: the mean log loss of all rows, each tested before it was learnt (lower is better).",
               [panel(results, "rows_per_s", "rows per second"),
                panel(results, "log_loss", "log loss (nats per row)")])
