"""How long a round takes, and a row until it is in the weights: percentiles in milliseconds.

- "round trip": of a sequential job on one row a batch, from one shared record of `weights` to the
  next: its workers read it, compute, and send; the server folds and answers. The floor is that of
  `loop`, "weights once", watched by the same reader (benchmarks/kafka/job_latency.cc).
- "freshness": of an eventual job to which CsvProducer sends --rate rows a second, fewer than it
  could train on, from a row in input-data until its worker is answered with weights that it is in.
  A row has one hop more than a round of the floor.

Lower is better. A percentile is that of a turn; the table has the median of the turns.
"""

import re

import loop
from common import Job, Programs, TOOLS, WORKERS, compared, text_rows
from loop import EVENTUAL, SPARSE, WARM_UP_S

RATE = 200  # rows per second
PERCENTILES = ("p50", "p99", "p99.9")


def watch(options, programs, name, *flags):
    """Starts the reader; waits for what it says."""
    programs.start("latency", TOOLS / "kafka" / "job_latency", "--brokers", options.broker, "--job",
                   name, "--workers", WORKERS, "--warm-up", WARM_UP_S, "--seconds", options.seconds,
                   *flags)
    programs.wait("latency")
    said = programs.log("latency").strip().splitlines()[-1]
    print(f"  {name}: {said} (ms)", flush=True)
    return {key: float(value) for key, value in re.findall(r"(p[\d.]+) ([\d.]+)", said)}


def round_trip(options, name, data):
    with Job(options.broker, name, SPARSE) as job:
        job.produce(data)
        job.wait("producer")
        job.serve()
        job.work()
        return watch(options, job, name)


def freshness(options, name, data):
    with Job(options.broker, name, EVENTUAL) as job:
        job.produce(data, "--rate", RATE)
        job.serve()
        job.work()
        job.wait_for("worker-0", "\n")  # its topics are there
        return watch(options, job, name, "--freshness")


def floor(options, name):
    with Programs(name, options.broker) as programs:
        loop.start_floor(options, programs, name, "--once")
        return watch(options, programs, name)


def run(options):
    data = text_rows(int(12000 * (WARM_UP_S + options.seconds)), "words",
                     "--min-words", "1", "--max-words", "3")
    loop.warm_up(options, "latency", data)
    sides = {"round trip": round_trip, "freshness": freshness}
    ours = {side: [] for side in sides}
    floors = []
    for turn in range(options.turns):
        for side, measure in sides.items():
            name = f"latency-{side.replace(' ', '-')}-{options.stamp}-{turn}"
            ours[side].append(measure(options, name, data))
        name = f"latency-floor-{options.stamp}-{turn}"
        floors.append(floor(options, name))
    return [compared(f"{side}, {part}", "ms", [turn[part] for turn in ours[side]],
                     [turn[part] for turn in floors]) for side in sides for part in PERCENTILES]
