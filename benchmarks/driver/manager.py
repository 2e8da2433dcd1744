"""Straight answers (docs/straight-answers.md) against answers through Kafka, in the same run, in turns.

A sequential job on 6,150 weights, which every update holds whole; a batch is one row, so that next to
nothing is computed. One worker in one process, and four in two.

- "rounds": per second, with the processor time of one, all processes and the broker together;
- "round trip": from one update of worker 0 in `gradients` to its next one, as a reader of the topic sees
  it: the server folds and answers, the worker reads, computes and sends. It is taken in a run of its own.

"ours" is direct, "floor" through Kafka. Of round trips lower is better.
"""

import loop
from common import Job, TOOLS, compared, remove_topics, text_rows
from latency import PERCENTILES, watch
from loop import DENSE, WARM_UP_S

WAYS = ("direct", "kafka")
WORKERS = (1, 4)


def job(options, name, workers, way, data, measure):
    with Job(options.broker, name, [*DENSE, "--answers", way], workers) as running:
        running.produce(data)
        running.wait("producer")
        running.serve()
        measured = measure(running)
    remove_topics(options.broker, name)
    return measured


def rounds(options, name, workers, way, data):
    return job(options, name, workers, way, data,
               lambda running: loop.job_rounds(running, options, processes=min(2, workers)))


def round_trip(options, name, workers, way, data):
    def measure(running):
        running.work(min(2, workers))
        return watch(options, running, name, "--updates")

    return job(options, name, workers, way, data, measure)


def run(options):
    data = text_rows(int(12000 * (WARM_UP_S + options.seconds)), "words",
                     "--min-words", "1", "--max-words", "3")
    loop.warm_up(options, "manager", data)
    rates = {(workers, way): [] for workers in WORKERS for way in WAYS}
    trips = {key: [] for key in rates}
    for turn in range(options.turns):
        for workers, way in rates:
            tag = f"manager-{way}-{workers}-{options.stamp}-{turn}"
            rates[workers, way].append(rounds(options, f"{tag}-rounds", workers, way, data))
            trips[workers, way].append(round_trip(options, f"{tag}-trip", workers, way, data))
    results = []
    for workers in WORKERS:
        of = f"{workers} worker{'s' * (workers > 1)}"
        results.append(compared(f"{of}, rounds", "rounds/s",
                                *(rates[workers, way] for way in WAYS)))
        results += [compared(f"{of}, round trip, {part}", "ms",
                             *([turn[part] for turn in trips[workers, way]] for way in WAYS),
                             target="<= 1 ms" if (workers, part) == (1, "p50") else "")
                    for part in PERCENTILES]
    return results
