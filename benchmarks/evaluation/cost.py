"""Section 5: what a job costs."""

from blocks import Column, Panel, Plot, Series, Table
from job import START_S, Settings
from plan import Case

NAME = "cost"
TITLE = "5. Cost"
TOPICS = ("input-data", "gradients", "weights", "parameters", "metrics", "job", "dead-letter")
PROGRAMS = ("CsvProducer", "ServerApp", "WorkerApp", "broker")
SHOWN = {"WorkerApp": "WorkerApps (two)", "broker": "Kafka broker"}
ABOUT = (
    "A job with the defaults, from the file to the end: four workers in two WorkerApps, one ServerApp. Bytes are "
    "those of each topic's files on the disk of a broker that deletes nothing and keeps one copy (the topics' own "
    "headers and Kafka's compression included; in use, input-data and gradients are trimmed as soon as they are not "
    "needed). Memory is the most that was resident at once, of the larger WorkerApp. Processor time is user and "
    "system time from the start of a program to its end, of the broker during the job, divided by the rows.")


def cases(each, size):
    # The first job of a broker is its warm-up.
    return [Case("defaults", {}, START_S + each.rows / 20_000)]


def measure(bench, each, params):
    done = bench.run(Settings(each.path, each.flags()))
    sizes = bench.broker.topic_bytes(done.job)
    millions = each.rows / 1e6
    return {"seconds": done.seconds, "rounds": done.summary["rounds"],
            **{f"bytes {topic}": sizes.get(topic, 0) / each.rows for topic in TOPICS},
            "bytes all": sum(sizes.values()) / each.rows,
            **{f"peak {name}": done.peak_mib[name] for name in PROGRAMS},
            **{f"cpu {name}": done.cpu_s[name] / millions for name in PROGRAMS},
            "cpu all": sum(done.cpu_s.values()) / millions}, {}


def bars(spreads, kind, names, shown):
    return Series("", [shown.get(name, name) for name in names],
                  [spreads[f"{kind} {name}"]["median"] for name in names])


def blocks(each, results):
    spreads = next(iter(results.values())).spreads()
    topics = [topic for topic in TOPICS if spreads[f"bytes {topic}"]["max"] > 0]
    yield Table(f"{each.name}: bytes that a row causes on each topic", [Column("topic"), Column("bytes per row")],
                [[name, spreads[f"bytes {name}"]] for name in (*topics, "all")],
                f"{each.rows:,} rows; a short stream bears the fixed costs of a job alone. min/median/max of the runs.")
    yield Table(f"{each.name}: memory and processor time",
                [Column("program"), Column("peak memory, MiB"), Column("processor seconds per million rows")],
                [*([SHOWN.get(name, name), spreads[f"peak {name}"], spreads[f"cpu {name}"]] for name in PROGRAMS),
                 ["all", None, spreads["cpu all"]]], "min/median/max of the runs.")
    yield Table(f"{each.name}: the job", [Column("rows"), Column("rounds", 0), Column("seconds")],
                [[f"{each.rows:,}", spreads["rounds"], spreads["seconds"]]], "min/median/max of the runs.")
    yield Plot(f"cost-{each.name}", f"{each.name}: what a row costs",
               "Medians of the runs. Left: bytes that are written to each topic for a row. Right: processor time.",
               [Panel("", "topic", "bytes per row", [bars(spreads, "bytes", topics, {})], bars=True),
                Panel("", "program", "processor seconds per million rows",
                      [bars(spreads, "cpu", PROGRAMS, {"WorkerApp": "WorkerApps"})], bars=True)])
