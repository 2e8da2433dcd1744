"""Sequential rounds per second, against the same records moved by bare librdkafka.

Ours is a ServerApp and two WorkerApps with two logical workers each; a batch is one row, so that
next to nothing is computed. 6,150 weights: 1,024 hashed features and the bias, times 6 classes. The
floor (benchmarks/kafka/bare_loop.cc) moves four gradients and four weights messages of 24,600 bytes
a round over the same hops, between as many processes. Ours may move less: a gradient on one row is
sent sparse. So there are two lines: with the gradient as it comes, and with an update that holds
every weight, which is as many bytes as the floor moves.
"""

import argparse
import time

from common import Job, Programs, TOOLS, WORKERS, compared, text_rows

WARM_UP_S = 3
TARGET = 0.6
SPARSE = ["--batch-rows", "1"]
DENSE = ["--batch-rows", "1", "--update", "weight-change", "--solver", "sgd",
         "--local-iterations", "1"]


def lasting(options, seconds):
    """The options, for a measurement of at least so many seconds."""
    return argparse.Namespace(**{**vars(options), "seconds": max(options.seconds, seconds)})


def rounds_per_second(points, seconds):
    """Points are (milliseconds, rounds); those of the warm-up do not count. From one point at which
    rounds were new to another, so that slow ones count whole. None: that is not enough of them."""
    begun = next((ms for ms, rounds in points if rounds > 0), None)
    if begun is None:
        return None
    news = [point for before, point in zip(points, points[1:])
            if point[1] > before[1] and WARM_UP_S <= (point[0] - begun) / 1000]
    end = next((p for p in news if p[0] - news[0][0] >= seconds * 1000), None)
    return end and (end[1] - news[0][1]) * 1000 / (end[0] - news[0][0])


def job_rounds(job, options, begin=0, servers=("server",)):
    """Lets the job's workers train; rounds per second, not counting its first `begin` rounds."""
    workers = job.work()
    job.start("rounds", TOOLS / "kafka" / "job_rounds", *job.common)
    limit = time.monotonic() + 300
    rate = None
    while time.monotonic() < limit:
        time.sleep(0.25)
        lines = job.log("rounds").rsplit("\n", 1)[0].split("\n")
        points = [(ms, max(0, rounds - begin))
                  for ms, rounds in (map(int, line.split()[:2]) for line in lines if line)]
        rate = rounds_per_second(points, options.seconds)
        if rate is not None:
            break
    if rate is None:
        raise RuntimeError(f"{job.name}: its rounds are too slow, or its rows were too few")
    job.stop(*workers, *servers, "rounds")
    print(f"  {job.name}: {rate:.1f} rounds/s", flush=True)
    return rate


def ours(options, name, training, data):
    with Job(options.broker, name, training) as job:
        job.produce(data)
        job.wait("producer")
        job.serve()
        return job_rounds(job, options)


def floor(options, name, *flags, servers=1):
    words = [TOOLS / "kafka" / "bare_loop", "--brokers", options.broker, "--prefix", name,
             "--shards", servers, *flags]
    with Programs(name) as programs:
        programs.start("create", *words, "create")
        programs.wait("create")
        for i in range(servers):
            programs.start(f"server-{i}", *words, "serve", "--shard", i, "--warm-up", WARM_UP_S,
                           "--seconds", options.seconds)
        for i in range(2):
            half = WORKERS // 2
            mine = ",".join(str(w) for w in range(i * half, (i + 1) * half))
            programs.start(f"worker-{i}", *words, "work", "--partitions", mine)
        programs.wait("server-0")
        rate = float(programs.log("server-0").split()[-1])
        print(f"  {name}: {rate:.1f} rounds/s", flush=True)
        return rate


def run(options):
    # More than any machine uses up: 4 rows a round.
    data = text_rows(int(8000 * (WARM_UP_S + options.seconds)), "words",
                     "--min-words", "1", "--max-words", "3")
    floor(options, f"loop-warm-up-{options.stamp}")  # of the broker
    dense, sparse, floors = [], [], []
    for turn in range(options.turns):
        tag = f"{options.stamp}-{turn}"
        dense.append(ours(options, f"loop-dense-{tag}", DENSE, data))
        floors.append(floor(options, f"loop-floor-{tag}"))
        sparse.append(ours(options, f"loop-sparse-{tag}", SPARSE, data))
    return [
        compared("sequential rounds, every weight in each update", "rounds/s", dense, floors,
                 f">= {TARGET}"),
        compared("sequential rounds, gradients on one row", "rounds/s", sparse, floors,
                 f">= {TARGET}"),
    ]
