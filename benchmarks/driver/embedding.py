"""Sequential rounds on embedding rows, against the same bytes moved by bare librdkafka.

Ours is a factorization machine (15 factors and a weight: 16 floats a row) on a ServerApp and two
WorkerApps with two logical workers each; a batch names 1,000 random ids of a million, each of which
has a row: pulled and pushed in one round trip. The floor (benchmarks/kafka/bare_loop.cc with --ids)
moves as many ids and floats over the same hops; its server adds what comes to the rows of an
unordered map and copies out those that are wanted. With all rows in memory, with answers through
Kafka, as the floor's, and direct; with a cache of a tenth of them before the scratch file; and with
such a cache right before RocksDB, as it is when the disk has no room for a scratch file or the
table is larger than that, too. (The floor's map has all rows in memory; what bare RocksDB alone can
read and write of such rows is measured by `micro`.)

A checkpoint of that many rows takes seconds, and the next one waits for three times as long (seven
times with two replicas: tasks/checkpoint_schedule.h). What is measured lasts for several of them.
"""

import random

import loop
from common import Job, WORK, WORKERS, compared
from loop import DIRECT, WARM_UP_S, job_rounds, lasting

IDS = 1_000_000
COLUMNS = 10
SEVERAL_CHECKPOINTS_S = 30
BATCH_ROWS = 100  # times ten columns: a thousand ids
FEATURES = ["--label", "label", "--classes", "a,b",
            "--ids", ",".join(f"id{i}" for i in range(COLUMNS))]
TRAINING = ["--model", "fm", "--factors", "15", "--batch-rows", str(BATCH_ROWS),
            "--learning-rate", "0.01"]
BIRTH_ROUNDS = IDS // (WORKERS * BATCH_ROWS * COLUMNS)
# A row takes 16 floats, AdaGrad's state of each, and what is known of it.
IN_MEMORY = ["--embedding-cache", "512"]
A_TENTH = ["--embedding-cache", "20"]
# What is measured: flags of the job, flags of the server, and the least ratio to the floor.
KINDS = [
    ("all rows in memory", [], IN_MEMORY, ">= 0.9"),
    ("all rows in memory, answers direct", DIRECT, IN_MEMORY, ">= 0.9"),
    ("a tenth of the rows in memory", [], A_TENTH, ">= 0.5"),
    ("a tenth, and no scratch file", [], [*A_TENTH, "--embedding-scratch", "0"], ""),
]


def id_rows(rows):
    """First each id once, so that every row is there; then random ones."""
    path = WORK / "data" / f"ids-{rows}.csv"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    draw = random.Random(1)
    per_column = IDS // COLUMNS
    with open(path, "w", encoding="utf-8") as out:
        out.write("label," + ",".join(f"id{i}" for i in range(COLUMNS)) + "\n")
        for row in range(per_column + rows):
            first = row < per_column
            ids = (row if first else draw.randrange(per_column) for _ in range(COLUMNS))
            out.write("ab"[row % 2] + "," + ",".join(map(str, ids)) + "\n")
    return path


def random_rows(options):
    """More than any machine uses up."""
    return id_rows(int(WORKERS * BATCH_ROWS * 300 * (WARM_UP_S + options.seconds)))


def ours(options, name, flags, cache, data):
    with Job(options.broker, name, [*TRAINING, *flags]) as job:
        job.produce(data, features=FEATURES)
        job.wait("producer")
        job.serve(*cache)
        return job_rounds(job, options, begin=BIRTH_ROUNDS)


def floor(options, name):
    return loop.floor(options, name, "--ids", BATCH_ROWS * COLUMNS, "--rows", IDS)


def run(options):
    options = lasting(options, SEVERAL_CHECKPOINTS_S)
    data = random_rows(options)
    loop.warm_up_by(options, "embedding", lambda job: floor(options, job),
                    lambda job: ours(options, job, [], IN_MEMORY, data))
    measured = [[] for _ in KINDS]
    floors = []
    for turn in range(options.turns):
        for i, (_, flags, cache, _) in enumerate(KINDS):
            measured[i].append(
                ours(options, f"embedding-{i}-{options.stamp}-{turn}", flags, cache, data))
        floors.append(floor(options, f"embedding-floor-{options.stamp}-{turn}"))
    results = [compared(f"sequential rounds, {name}", "rounds/s", rates, floors, target)
               for (name, *_, target), rates in zip(KINDS, measured)]
    per_round = WORKERS * BATCH_ROWS * COLUMNS
    for what in ("lookups", "updates"):
        results.append(compared(f"{what}, all rows in memory", "rows/s",
                                [rate * per_round for rate in measured[0]],
                                [rate * per_round for rate in floors], KINDS[0][-1]))
    return results
