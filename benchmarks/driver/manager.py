"""Straight answers (docs/straight-answers.md) against answers through Kafka, in the same run, in turns.

A sequential job on 6,150 weights, which every update holds whole; a batch is one row, so that next to
nothing is computed. One worker in one process, and four in two.

- "rounds": per second, with the processor time of one, all processes and the broker together;
- "round trip": from one update of worker 0 in `gradients` to its next one, as a reader of the topic sees
  it: the server folds and answers, the worker reads, computes and sends. It is taken in a run of its own.

"ours" is direct, "floor" through Kafka. Of round trips lower is better.

Then trainers of one's own (docs/parameter-manager.md) push and pull 1,000 rows of 16 floats, of a million, in one
round trip: one trainer, and four in two processes, with answers through Kafka and straight. Their floor is
benchmarks/kafka/bare_loop.cc with --ids, which moves as many ids and floats over the same hops through Kafka, and
adds what comes to rows in an unordered map. It does less than a server must: it decodes and checks nothing, its rows
have no optimizer state (AdaGrad's is as large as the values), and it saves nothing. Ours writes the rows that have
changed to `parameters` and to RocksDB, which may take a quarter of the time (docs/checkpoint-and-recovery.md), and the
broker takes those records, too: all of that is in its processor time. And each trainer has Kafka clients of its own,
where the floor's two workers of a process share one.
"""

import loop
from common import Job, TOOLS, compared, remove_topics, text_rows
from latency import PERCENTILES, watch
from loop import DENSE, WARM_UP_S

WAYS = ("direct", "kafka")
WORKERS = (1, 4)
ROWS = 1_000  # of a step
TABLE = 1_000_000


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


def rows(options, name, trainers, way):
    training = ["--model", "external", "--optimizer", "adagrad", "--answers", way]
    with Job(options.broker, name, training, trainers) as running:
        running.serve()
        processes = min(2, trainers)
        for i in range(processes):
            running.start(f"trainers-{i}", TOOLS / "client" / "row_trainers", options.broker, name, trainers, i,
                          processes, ROWS, TABLE)
        rate = loop.job_rounds(running, options, workers=[f"trainers-{i}" for i in range(processes)])
    remove_topics(options.broker, name)
    return rate


def run_rows(options):
    results = []
    for trainers in WORKERS:
        floors, rates = [], {way: [] for way in WAYS}
        for turn in range(options.turns):
            tag = f"manager-rows-{trainers}-{options.stamp}-{turn}"
            for way in WAYS:
                rates[way].append(rows(options, f"{tag}-{way}", trainers, way))
            floors.append(loop.floor(options, f"{tag}-floor", "--ids", ROWS, "--rows", TABLE, workers=trainers))
            remove_topics(options.broker, f"{tag}-floor")
        results += [compared(f"{trainers} trainer{'s' * (trainers > 1)}, {ROWS:,} rows of 16, {way}", "rounds/s",
                             rates[way], floors) for way in WAYS]
    return results


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
    return results + run_rows(options)
