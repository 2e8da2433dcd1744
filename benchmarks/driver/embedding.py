"""Sequential rounds on embedding rows, against the same bytes moved by bare librdkafka.

Ours is a factorization machine (15 factors and a weight: 16 floats a row) on a ServerApp and two
WorkerApps with two logical workers each; a batch names 1,000 random ids of a million, each of which
has a row: pulled and pushed in one round trip. The floor (benchmarks/kafka/bare_loop.cc with --ids)
moves as many ids and floats over the same hops; its server adds what comes to the rows of an
unordered map and copies out those that are wanted. Once with all rows in memory, once with a cache
of a tenth of them before RocksDB (the floor's map has them all in memory).
"""

import random
import time

from common import Job, Programs, TOOLS, WORK, WORKERS, compared
from loop import floor_words, rounds_per_second

TARGET = 0.5
IDS = 1_000_000
COLUMNS = 10
BATCH_ROWS = 100  # times ten columns: a thousand ids
FEATURES = ["--label", "label", "--classes", "a,b",
            "--ids", ",".join(f"id{i}" for i in range(COLUMNS))]
TRAINING = ["--model", "fm", "--factors", "15", "--batch-rows", str(BATCH_ROWS),
            "--learning-rate", "0.01"]
BIRTH_ROUNDS = IDS // (WORKERS * BATCH_ROWS * COLUMNS)
WARM_UP_S = 3
# A row takes 16 floats, AdaGrad's state of each, and what is known of it.
CACHES = {"all rows in memory": 512, "a tenth of the rows in memory": 20}


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


def ours(options, name, cache_mib, data):
    with Job(options.broker, name, TRAINING) as job:
        job.produce(data, features=FEATURES)
        job.wait("producer")
        job.serve("--embedding-cache", str(cache_mib))
        workers = job.work()
        job.start("rounds", TOOLS / "kafka" / "job_rounds", *job.common)
        limit = time.monotonic() + 300
        points = []
        while time.monotonic() < limit:
            time.sleep(0.25)
            lines = job.log("rounds").rsplit("\n", 1)[0].split("\n")
            points = [tuple(map(int, line.split()[:2])) for line in lines if line]
            begun = [ms for ms, rounds in points if rounds > BIRTH_ROUNDS]
            if begun and points[-1][0] - begun[0] > (WARM_UP_S + options.seconds) * 1000:
                break
        job.stop(*workers, "server", "rounds")
        rate = rounds_per_second([(ms, max(0, rounds - BIRTH_ROUNDS)) for ms, rounds in points],
                                 options.seconds)
        print(f"  {name}: {rate:.0f} rounds/s", flush=True)
        return rate


def floor(options, name):
    words = floor_words(options, name) + ["--ids", BATCH_ROWS * COLUMNS, "--rows", IDS]
    with Programs(name) as programs:
        programs.start("create", *words, "create")
        programs.wait("create")
        programs.start("server", *words, "serve", "--warm-up", WARM_UP_S,
                       "--seconds", options.seconds)
        for i in range(2):
            half = WORKERS // 2
            mine = ",".join(str(w) for w in range(i * half, (i + 1) * half))
            programs.start(f"worker-{i}", *words, "work", "--partitions", mine)
        programs.wait("server")
        rate = float(programs.log("server").split()[-1])
        print(f"  {name}: {rate:.0f} rounds/s", flush=True)
        return rate


def run(options):
    data = id_rows(int(WORKERS * BATCH_ROWS * 300 * (WARM_UP_S + options.seconds)))
    floor(options, f"embedding-warm-up-{options.stamp}")  # of the broker
    measured = {name: [] for name in CACHES}
    floors = []
    for turn in range(options.turns):
        for i, (name, cache_mib) in enumerate(CACHES.items()):
            measured[name].append(
                ours(options, f"embedding-{i}-{options.stamp}-{turn}", cache_mib, data))
        floors.append(floor(options, f"embedding-floor-{options.stamp}-{turn}"))
    per_round = WORKERS * BATCH_ROWS * COLUMNS
    results = [compared(f"sequential rounds, {name}", "rounds/s", rates, floors, f">= {TARGET}")
               for name, rates in measured.items()]
    for what in ("lookups", "updates"):
        rates = measured["all rows in memory"]
        results.append(compared(f"{what}, all rows in memory", "rows/s",
                                [rate * per_round for rate in rates],
                                [rate * per_round for rate in floors], f">= {TARGET}"))
    return results
