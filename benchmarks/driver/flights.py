"""Flights per second and core, one pass of logistic regression, against Vowpal Wabbit.

The stream of scripts/demo (datasets/flights.py: 327,346 flights in order of time): 11 numeric
columns, standardised as they come, and six categorical ones, crosses among them, hashed to 4,096.
Ours is CsvProducer, ServerApp and two WorkerApps with four workers, once with 128 rows a batch and
AdaGrad and once with default settings (row by row, racing rates); the broker's processor time
counted, and not. And a whole job with default settings and one worker in one process without Kafka
(benchmarks/learning/learn_csv.cc), from the file to the figures: what learning itself costs. Wall
time is printed, too: of ours from the first program's start to the last one's end. Vowpal Wabbit
reads the same columns from a file that was prepared for it before (its adaptive, normalised steps are
its default), and has neither a broker nor a log. A core is a second of processor time of all of a
side's processes and threads.

Without Vowpal Wabbit the floor is the job itself without the broker's time. Each side's progressive
log loss is printed, so that nobody wins by learning nothing.
"""

import csv
import itertools
import json
import subprocess
import time

from common import APPS, Job, ROOT, TOOLS, WORK, compared, cpu_s, remove_topics
from train import bare_process

NUMERIC = ["distance", "hour_flights", "hour_origin_flights", "temp", "dewp", "humid", "wind_speed",
           "wind_gust", "precip", "pressure", "visib"]
CATEGORICAL = ["carrier", "dest", "hour", "weekday", "origin*hour", "carrier*origin"]
FEATURES = ["--label", "late", "--classes", "no,yes", "--numeric", ",".join(NUMERIC),
            "--categorical", ",".join(CATEGORICAL), "--categorical-buckets", "4096"]
KINDS = {"adagrad": ["--optimizer", "adagrad", "--learning-rate", "0.04", "--l2", "1e-3",
                     "--batch-rows", "128"],
         "defaults": []}


def example(row):
    """A flight in the format of Vowpal Wabbit, in which neither a name nor a value has a space."""
    words = [f"{name}:{row[name]}" for name in NUMERIC]
    words += [f"{name}=" + "^".join(row[part] for part in name.split("*")) for name in CATEGORICAL]
    return f"{1 if row['late'] == 'yes' else -1} | {' '.join(words)}\n"


def data(options):
    """The CSV, the same for Vowpal Wabbit, and the number of rows; made once."""
    made = ROOT / "build" / "data" / "flights.csv"
    if not made.exists():
        subprocess.run([options.python, ROOT / "datasets" / "flights.py", "--out", made.parent],
                       check=True)
    few = WORK / "data" / f"flights-{options.flights_rows}.csv"
    few.parent.mkdir(parents=True, exist_ok=True)
    prepared = few.with_suffix(".vw")
    rows = 0
    with open(made, newline="", encoding="utf-8") as source, \
            open(few, "w", newline="", encoding="utf-8") as copy, \
            open(prepared, "w", encoding="utf-8") as out:
        reader = csv.DictReader(itertools.islice(source, options.flights_rows + 1))
        writer = csv.DictWriter(copy, reader.fieldnames)
        writer.writeheader()
        for row in reader:
            rows += 1
            writer.writerow(row)
            out.write(example(row))
    return few, prepared, rows


def ours(options, kind, name, flights, rows):
    """Flights per second of our processor time, and with the broker's."""
    with Job(options.broker, name, KINDS[kind]) as job:
        before, begin = cpu_s(options.broker_pid), time.monotonic()
        job.produce(flights, features=FEATURES)
        job.serve()
        job.wait("producer", "server", *job.work())
        wall_s, used = time.monotonic() - begin, sum(job.cpu_s.values())
        broker = cpu_s(options.broker_pid) - before
        job.start("watch", APPS / "Watch", *job.common, "--summary", job.folder / "summary.json")
        job.wait("watch")
        loss = json.loads((job.folder / "summary.json").read_text())["progressive"]["log_loss"]
    remove_topics(options.broker, name)
    print(f"  {name}: {rows / used:,.0f} flights/s and core, with the broker "
          f"{rows / (used + broker):,.0f}; {rows / wall_s:,.0f} flights/s, log loss {loss:.3f}",
          flush=True)
    return rows / used, rows / (used + broker)


def one_process(name, flights, rows):
    used, loss = bare_process(name, r'"log_loss":([\d.]+)', TOOLS / "learning" / "learn_csv",
                              *FEATURES, "--input", flights, "--workers", 1)
    print(f"  one process, no Kafka: {rows / used:,.0f} flights/s and core, log loss {loss:.3f}",
          flush=True)
    return rows / used


def wabbit(options, name, prepared, rows):
    used, loss = bare_process(name, r"average loss = ([\d.]+)", options.vw_python, "-m",
                              "vowpalwabbit", "--loss_function", "logistic", "-b", 13, "-d", prepared)
    print(f"  Vowpal Wabbit: {rows / used:,.0f} flights/s and core, log loss {loss:.3f}", flush=True)
    return rows / used


def run(options):
    flights, prepared, rows = data(options)
    alone, with_broker, floors = {kind: [] for kind in KINDS}, {kind: [] for kind in KINDS}, []
    bare = []
    for turn in range(options.turns):
        for kind in KINDS:
            without, with_it = ours(options, kind, f"flights-{kind}-{options.stamp}-{turn}", flights,
                                    rows)
            alone[kind].append(without)
            with_broker[kind].append(with_it)
        bare.append(one_process(f"flights-bare-{turn}", flights, rows))
        if options.vw_python:
            floors.append(wabbit(options, f"flights-vw-{turn}", prepared, rows))
    if not floors:
        print("Vowpal Wabbit is not here (no wheel of vowpalwabbit could be installed): the floor is "
              "the job itself without the broker's time")
    unit = "flights/s and core"
    against = "Vowpal Wabbit" if floors else "itself"
    results = [compared(f"one process without Kafka, defaults, against {against}", unit, bare,
                        floors or bare, ">= 1")]
    for kind in KINDS:
        results.append(compared(f"CsvProducer, ServerApp, 2 WorkerApps, {kind}, against {against}", unit,
                                alone[kind], floors or alone[kind]))
        results.append(compared("the same, the broker's time counted too", unit, with_broker[kind],
                                floors or alone[kind]))
    return results
