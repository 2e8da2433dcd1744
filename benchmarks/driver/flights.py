"""One pass of logistic regression over the flights, against Vowpal Wabbit.

The stream of scripts/demo (datasets/flights.py: 327,346 flights in order of time): 11 numeric
columns, standardised as they come, and six categorical ones, crosses among them, hashed to 4,096.
A core is a second of processor time of all of a side's processes and threads.

Ours is
 - the learner alone (benchmarks/learning/learn_csv.cc), with default settings (row by row, racing
   rates) and one worker, whose rows have been read and encoded;
 - the whole job in that process, without Kafka, from the file to the figures;
 - CsvProducer, ServerApp and two WorkerApps with four workers, with default settings, and with 128
   rows a batch and AdaGrad; the broker's processor time counted, and not.
Vowpal Wabbit (its adaptive, normalised steps are its default) reads the same columns from a file that
was prepared for it before: its driver. It has neither a broker nor a log.

And flights per second of wall time, from the first program's start to the last one's end: of ours with
default settings, against Vowpal Wabbit that is fed by a Python, which makes its text of the same CSV
(vw_flights.py).

Each side's progressive log loss is printed, so that nobody wins by learning nothing.
"""

import csv
import itertools
import json
import re
import subprocess
import sys
import time

from common import APPS, Job, Programs, ROOT, TOOLS, WORK, compared, cpu_s
from texts import bare_process
from vw_flights import CATEGORICAL, NUMERIC, example

FEATURES = ["--label", "late", "--classes", "no,yes", "--numeric", ",".join(NUMERIC),
            "--categorical", ",".join(CATEGORICAL), "--categorical-buckets", "4096"]
KINDS = {"defaults": [],
         "adagrad": ["--optimizer", "adagrad", "--learning-rate", "0.04", "--l2", "1e-3",
                     "--batch-rows", "128"]}
WABBIT = ["-m", "vowpalwabbit", "--loss_function", "logistic", "-b", 13, "-d"]
LOSS = r"average loss = ([\d.]+)"


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


def job(options, kind, name, flights, rows):
    """Flights per second of our processor time, with the broker's, and of wall time."""
    with Job(options.broker, name, KINDS[kind]) as programs:
        before, begin = cpu_s(options.broker_pid), time.monotonic()
        programs.produce(flights, features=FEATURES)
        programs.serve()
        programs.wait("producer", "server", *programs.work())
        wall_s, used = time.monotonic() - begin, sum(programs.cpu_s.values())
        broker = cpu_s(options.broker_pid) - before
        programs.start("watch", APPS / "Watch", *programs.common, "--summary",
                       programs.folder / "summary.json")
        programs.wait("watch")
        loss = json.loads((programs.folder / "summary.json").read_text())["progressive"]["log_loss"]
    print(f"  {name}: {rows / used:,.0f} flights/s and core, with the broker "
          f"{rows / (used + broker):,.0f}; {rows / wall_s:,.0f} flights/s, log loss {loss:.3f}",
          flush=True)
    return rows / used, rows / (used + broker), rows / wall_s


def one_process(name, flights, rows):
    """Flights per second and core of the learner alone, and of the whole job."""
    with Programs(name) as programs:
        programs.start("learner", TOOLS / "learning" / "learn_csv", *FEATURES, "--input", flights,
                       "--workers", 1)
        programs.wait("learner")
        used, told = programs.cpu_s["learner"], json.loads(programs.log("learner").splitlines()[-1])
    learner = 1 / told["seconds_per_row"]
    print(f"  one process, no Kafka: {rows / used:,.0f} flights/s and core, its learner alone "
          f"{learner:,.0f}, log loss {told['whole']['log_loss']:.3f}", flush=True)
    return learner, rows / used


def wabbit(options, name, prepared, rows):
    used, loss = bare_process(name, LOSS, options.python, *WABBIT, prepared)
    print(f"  Vowpal Wabbit: {rows / used:,.0f} flights/s and core, log loss {loss:.3f}", flush=True)
    return rows / used


def fed_wabbit(options, name, flights, rows):
    """Flights per second of wall time."""
    with Programs(name) as programs:
        begin = time.monotonic()
        with subprocess.Popen([sys.executable, ROOT / "benchmarks" / "driver" / "vw_flights.py", flights],
                              stdout=subprocess.PIPE) as feeder:
            programs.start("wabbit", options.python, *WABBIT, "/dev/stdin", stdin=feeder.stdout)
            feeder.stdout.close()
            programs.wait("wabbit")
        wall_s = time.monotonic() - begin
        said = programs.log("wabbit")
    examples = int(re.search(r"number of examples = (\d+)", said)[1])
    if feeder.returncode != 0 or examples != rows:
        raise RuntimeError(f"Vowpal Wabbit was fed {examples} of {rows} flights (exit code of what "
                           f"feeds it: {feeder.returncode})\n{said[-2000:]}")
    print(f"  Vowpal Wabbit fed by Python: {rows / wall_s:,.0f} flights/s, log loss "
          f"{float(re.search(LOSS, said)[1]):.3f}", flush=True)
    return rows / wall_s


def run(options):
    flights, prepared, rows = data(options)
    ours = {kind: [] for kind in KINDS}
    bare, driver, fed = [], [], []
    for turn in range(options.turns):
        for kind, turns in ours.items():
            turns.append(job(options, kind, f"flights-{kind}-{options.stamp}-{turn}", flights, rows))
        fed.append(fed_wabbit(options, f"flights-fed-{turn}", flights, rows))
        bare.append(one_process(f"flights-bare-{turn}", flights, rows))
        driver.append(wabbit(options, f"flights-vw-{turn}", prepared, rows))
    unit = "flights/s and core"
    learner, whole = zip(*bare)
    results = [
        compared("flights by CsvProducer, ServerApp, 2 WorkerApps, defaults, against Vowpal Wabbit fed "
                 "by Python", "flights/s", [wall for _, _, wall in ours["defaults"]], fed, ">= 1"),
        compared("the learner alone, defaults, against Vowpal Wabbit's driver", unit, learner, driver,
                 ">= 1"),
        compared("flights in one process without Kafka, defaults, against the same", unit, whole, driver),
    ]
    for kind, turns in ours.items():
        alone, with_broker, _ = zip(*turns)
        results.append(compared(f"CsvProducer, ServerApp, 2 WorkerApps, {kind}, against the same", unit,
                                alone, driver))
        results.append(compared("the broker's time counted too", unit, with_broker, driver))
    return results
