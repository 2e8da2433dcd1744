"""Sequential rounds of a large dense model, against the same bytes moved by bare librdkafka.

Ours is a softmax of a thousand classes on numeric columns: a row touches every weight, so a gradient
is as large as the model. One, two and four ServerApps with a shard each, two WorkerApps with two
logical workers each; a batch is one row, so that little is computed: each weight is read once and
its gradient written once. The floor (benchmarks/kafka/bare_loop.cc) moves four gradients and four
weights messages of four bytes for each weight, between as many processes, in records as large as
ours.

A round of the largest model moves 320 MB. What a turn has moved is deleted after it.
"""

import random

import loop
from common import Job, WORK, WORKERS, compared
from loop import WARM_UP_S, job_rounds, lasting

TARGET = 0.8
CLASSES = 1000
SIZES = {"100 thousand": 100_000, "1 million": 1_000_000, "10 million": 10_000_000}
SERVERS = (1, 2, 4)
TRAINING = ["--batch-rows", "1", "--learning-rate", "0.01", "--scaling", "none"]
# More rounds in a second than any machine has: of the smallest model, and so on.
MOST_ROUNDS = {100_000: 400, 1_000_000: 60, 10_000_000: 8}


def features(size):
    columns = size // CLASSES - 1  # and the bias
    return ["--label", "label", "--classes", ",".join(f"c{k}" for k in range(CLASSES)),
            "--numeric", ",".join(f"x{i}" for i in range(columns)),
            "--missing", "mean-only"]  # no indicators: the model has the size that it is named by


def numeric_rows(size, rows):
    path = WORK / "data" / f"dense-{size}-{rows}.csv"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    draw = random.Random(1)
    columns = size // CLASSES - 1
    with open(path, "w", encoding="utf-8") as out:
        out.write("label," + ",".join(f"x{i}" for i in range(columns)) + "\n")
        for _ in range(rows):
            values = ",".join(draw.choices(("-.2", "-.1", "0", ".1", ".2"), k=columns))
            out.write(f"c{draw.randrange(CLASSES)},{values}\n")
    return path


def ours(options, name, size, servers):
    rows = int(WORKERS * MOST_ROUNDS[size] * (WARM_UP_S + options.seconds + 5))
    with Job(options.broker, name, TRAINING) as job:
        job.produce(numeric_rows(size, rows), features=features(size))
        job.wait("producer")
        names = job.serve(servers=servers)
        return job_rounds(job, options, servers=names)


def floor(options, name, size, servers):
    return loop.floor(options, name, "--bytes", 4 * size, servers=servers)


def run(options):
    results = []
    loop.warm_up_by(options, "dense", lambda job: floor(lasting(options, 25), job, 1_000_000, 1),
                    lambda job: ours(lasting(options, 25), job, 1_000_000, 2))
    for what, size in SIZES.items():
        if options.dense_weights not in (None, size):
            continue
        # A round of the largest takes a second on a small machine, a checkpoint of it several.
        longer = lasting(options, 25) if size > 1_000_000 else options
        for servers in SERVERS:
            rates, floors = [], []
            for turn in range(options.turns):
                tag = f"{size}-{servers}-{options.stamp}-{turn}"
                rates.append(ours(longer, f"dense-{tag}", size, servers))
                floors.append(floor(longer, f"dense-floor-{tag}", size, servers))
            results.append(compared(f"sequential rounds, {what} weights, {servers} shards",
                                    "rounds/s", rates, floors, f">= {TARGET}"))
    return results
