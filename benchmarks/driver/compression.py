"""What compressed updates save, and what they cost: against the same job without compression.

Two jobs, sequential, one pass, a ServerApp and two WorkerApps with two logical workers each: a
softmax model of 1,024 hashed features and 6 classes on generated texts (dense gradients), and a
factorization machine on ten id columns of 2,000 values each (embedding rows), whose classes follow
from hidden weights of the ids. For each: bytes of `gradients` per round, rounds per second, and the
log loss of rows before they are trained on. The floor is the job without compression.
"""

import json
import math
import random
import statistics
import time

from common import APPS, Job, Result, TEXT, TOOLS, WORK, text_rows

MODES = {
    "none": [],
    "bf16": ["--compress", "bf16"],
    "fp16": ["--compress", "fp16"],
    "top .1": ["--top-k", "0.1"],
    "top .1, bf16": ["--top-k", "0.1", "--compress", "bf16"],
    "top .01, bf16": ["--top-k", "0.01", "--compress", "bf16"],
}
COLUMNS = 10
VALUES = 2_000  # of an id column
ID_FEATURES = ["--label", "label", "--classes", "no,yes",
               "--ids", ",".join(f"id{i}" for i in range(COLUMNS))]


def id_rows(rows):
    """Ids as common as words are (the n-th half as often as the n/2-th), classes by their weights."""
    path = WORK / "data" / f"weighted-ids-{rows}.csv"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    draw = random.Random(1)
    weights = [[draw.gauss(0, 0.6) for _ in range(VALUES)] for _ in range(COLUMNS)]
    with open(path, "w", encoding="utf-8") as out:
        out.write("label," + ",".join(f"id{i}" for i in range(COLUMNS)) + "\n")
        for _ in range(rows):
            ids = [min(VALUES - 1, int(VALUES ** draw.random())) for _ in range(COLUMNS)]
            score = sum(weights[i][value] for i, value in enumerate(ids))
            yes = draw.random() < 1 / (1 + math.exp(-score))
            out.write(("yes," if yes else "no,") + ",".join(map(str, ids)) + "\n")
    return path


def last_line(job, name):
    lines = job.log(name).rsplit("\n", 1)[0].split("\n")
    return [int(word) for word in lines[-1].split()]


def measure(options, name, training, data, features):
    """Bytes per round, rounds per second, log loss."""
    with Job(options.broker, name, training) as job:
        job.produce(data, features=features)
        job.wait("producer")
        # Nothing is deleted before it is counted.
        job.serve("--checkpoint-interval", "3600", "--checkpoint-records", "1000000000")
        job.wait_for("server", "answers workers")
        job.start("bytes", TOOLS / "kafka" / "gradient_bytes", *job.common)
        time.sleep(1)
        job.start("rounds", TOOLS / "kafka" / "job_rounds", *job.common)
        job.wait(*job.work(), "server")
        job.start("watch", APPS / "Watch", *job.common, "--once", "--summary",
                  job.folder / "summary.json")
        job.wait("watch")
        points = [list(map(int, line.split()[:2]))
                  for line in job.log("rounds").rsplit("\n", 1)[0].split("\n") if line]
        points = [(ms, rounds) for ms, rounds in points if rounds > 0]
        rounds = points[-1][1]
        # From the first point at which rounds were made to the first that has them all.
        (begin, first), end = points[0], next(ms for ms, count in points if count == rounds)
        rate = (rounds - first) * 1000 / max(1, end - begin)
        loss = json.loads((job.folder / "summary.json").read_text())["progressive"]["log_loss"]
        size = last_line(job, "bytes")[1] / rounds
        job.stop("rounds")
        print(f"  {name}: {size:,.0f} bytes a round, {rate:.0f} rounds/s, log loss {loss:.4f}",
              flush=True)
        return size, rate, loss


def run(options):
    jobs = {
        "text": (["--update", "gradient", "--batch-rows", "32"], text_rows(options.compression_rows, "compression"), TEXT),
        "ids": (["--model", "fm", "--factors", "15", "--batch-rows", "64", "--learning-rate", "0.1"],
                id_rows(options.compression_rows), ID_FEATURES),
    }
    results = []
    for kind, (training, data, features) in jobs.items():
        measured = {mode: [] for mode in MODES}
        for turn in range(options.turns):
            for i, (mode, flags) in enumerate(MODES.items()):
                name = f"compression-{kind}-{i}-{options.stamp}-{turn}"
                measured[mode].append(measure(options, name, training + flags, data, features))
        for place, unit in enumerate(["bytes/round", "rounds/s", "log loss"]):
            floors = [figures[place] for figures in measured["none"]]
            for mode in MODES:
                if mode == "none":
                    continue
                ours = [figures[place] for figures in measured[mode]]
                ratio = statistics.median(a / b for a, b in zip(ours, floors))
                results.append(Result(f"{kind}, {mode}", statistics.median(ours),
                                      statistics.median(floors), unit, ratio=ratio))
    return results
