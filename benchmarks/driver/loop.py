"""Rounds per second, against the same records moved by bare librdkafka.

Ours is a ServerApp and two WorkerApps with two logical workers each; a batch is one row, so that
next to nothing is computed. 6,150 weights: 1,024 hashed features and the bias, times 6 classes. The
floors (benchmarks/kafka/bare_loop.cc) move the same bytes over the same hops, between as many
processes: four gradients a round, and

- "a record for each worker": four weights messages of 24,600 bytes;
- "weights once": one, which both worker processes read. This is our design.

A design whose weights do not go through Kafka has a lower floor still (benchmarks/driver/manager.py has
it). Lines with direct answers are ours of that design, against the floors of the other one.

Ours may move less: a gradient on one row is sent sparse. So there are lines with the gradient as it
comes, and with an update that holds every weight, which is as many bytes as "weights once" moves. In an
eventual job a round is four updates; the slowest worker counts.
"""

import argparse
import re
import time

from common import Job, Programs, Rate, TOOLS, WORKERS, compared, text_rows

WARM_UP_S = 3
SPARSE = ["--update", "gradient", "--batch-rows", "1"]
DENSE = ["--batch-rows", "1", "--update", "weight-change", "--solver", "sgd",
         "--local-iterations", "1"]
EVENTUAL = [*SPARSE, "--consistency", "eventual"]
DIRECT = ["--answers", "direct"]
# What is measured: flags, and the least ratio to either floor.
KINDS = [
    ("sequential rounds, every weight in each update", DENSE, ">= 1.3", ">= .75"),
    ("sequential rounds, gradients on one row", SPARSE, ">= 1.3", ">= .75"),
    ("sequential, every weight, answers direct", [*DENSE, *DIRECT], ">= 1.3", ">= .75"),
    ("sequential, gradients, answers direct", [*SPARSE, *DIRECT], ">= 1.3", ">= .75"),
    ("eventual rounds, gradients on one row", [*EVENTUAL, "--pipeline", "1"], "", ""),
    ("eventual rounds, two updates in flight", [*EVENTUAL, "--pipeline", "2"], ">= 2", ""),
]


def lasting(options, seconds):
    """The options, for a measurement of at least so many seconds."""
    return argparse.Namespace(**{**vars(options), "seconds": max(options.seconds, seconds)})


class Window:
    """From one point at which rounds were new, after the warm-up, to another: slow ones count
    whole. Points are (milliseconds, rounds)."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.begun_ms = self.begin = self.end = None
        self.last_rounds = 0

    def add(self, ms, rounds, cpu_s):
        """`cpu_s` is called for the processor time so far, when it is needed."""
        is_new, self.last_rounds = rounds > self.last_rounds, rounds
        if not is_new or self.end:
            return
        self.begun_ms = self.begun_ms or ms
        if self.begin is None:
            if ms - self.begun_ms >= WARM_UP_S * 1000:
                self.begin = (ms, rounds, cpu_s())
        elif ms - self.begin[0] >= self.seconds * 1000:
            self.end = (ms, rounds, cpu_s())

    def rate(self):
        """None: it has not ended."""
        if self.end is None:
            return None
        ms, rounds, cpu_s = (b - a for a, b in zip(self.begin, self.end))
        return Rate(rounds * 1000 / ms, cpu_s * 1000 / rounds)


def add_rounds(job, options, window, read, begin=0):
    """What the job's `rounds` has printed since it had `read` lines; how many it has now."""
    lines = job.log("rounds").split("\n")[:-1]
    for line in lines[read:]:
        ms, rounds = map(int, line.split()[:2])
        window.add(ms, max(0, rounds - begin), lambda: job.cpu_now_s(options.broker_pid))
    return len(lines)


def job_rounds(job, options, begin=0, servers=("server",)):
    """Lets the job's workers train; rounds per second, not counting its first `begin` rounds."""
    workers = job.work()
    job.start("rounds", TOOLS / "kafka" / "job_rounds", *job.common)
    limit = time.monotonic() + 300
    window, read = Window(options.seconds), 0
    while window.end is None:
        if time.monotonic() > limit:
            raise RuntimeError(f"{job.name}: its rounds are too slow, or its rows were too few")
        time.sleep(0.02)
        read = add_rounds(job, options, window, read, begin)
    rate = window.rate()
    job.stop(*workers, *servers, "rounds")
    print(f"  {job.name}: {rate:.1f} rounds/s, {rate.cpu_ms:.3f} ms of processor time a round",
          flush=True)
    return rate


def ours(options, name, training, data, workers=WORKERS):
    with Job(options.broker, name, training, workers) as job:
        job.produce(data)
        job.wait("producer")
        job.serve()
        return job_rounds(job, options)


def start_floor(options, programs, name, *flags, servers=1, workers=WORKERS, work=()):
    """work: flags of its worker processes alone."""
    words = [TOOLS / "kafka" / "bare_loop", "--brokers", options.broker, "--prefix", name,
             "--shards", servers, "--workers", workers, *flags]
    programs.start("create", *words, "create")
    programs.wait("create")
    for i in range(servers):
        programs.start(f"server-{i}", *words, "serve", "--shard", i, "--warm-up", WARM_UP_S,
                       "--seconds", options.seconds)
    if "--direct" in flags:
        programs.wait_for("server-0", "port ")
        work = (*work, "--port", re.search(r"port (\d+)", programs.log("server-0"))[1])
    for i in range(min(2, workers)):
        mine = ",".join(str(w) for w in range(i, workers, 2))
        programs.start(f"worker-{i}", *words, "work", "--partitions", mine, *work)


def floor(options, name, *flags, servers=1, workers=WORKERS):
    with Programs(name, options.broker) as programs:
        start_floor(options, programs, name, *flags, servers=servers, workers=workers)
        programs.wait_for("server-0", "begin\n")
        cpu_s = programs.cpu_now_s(options.broker_pid)
        programs.wait_for("server-0", "rounds/s ")
        cpu_s = programs.cpu_now_s(options.broker_pid) - cpu_s
        rate = float(programs.log("server-0").rsplit("rounds/s ", 1)[1].split()[0])
        rate = Rate(rate, cpu_s * 1000 / (rate * options.seconds))
        print(f"  {name}: {rate:.1f} rounds/s, {rate.cpu_ms:.3f} ms of processor time a round",
              flush=True)
        return rate


def warm_up_by(options, name, of_floor, of_ours):
    """Of the broker, which takes its time to learn what to compile: of what the floor asks of it, and
    of transactions, groups and deletions besides. Both are called with the name of a job."""
    of_floor(f"{name}-floor-warm-up-{options.stamp}")
    of_ours(f"{name}-warm-up-{options.stamp}")


def warm_up(options, name, data):
    warm_up_by(options, name, lambda job: floor(options, job),
               lambda job: ours(options, job, SPARSE, data))


def run(options):
    # More than any machine uses up: 4 rows a round.
    data = text_rows(int(12000 * (WARM_UP_S + options.seconds)), "words",
                     "--min-words", "1", "--max-words", "3")
    warm_up(options, "loop", data)
    rates = [[] for _ in KINDS]
    floors, once = [], []
    for turn in range(options.turns):
        tag = f"{options.stamp}-{turn}"
        for i, (_, training, *_) in enumerate(KINDS):
            rates[i].append(ours(options, f"loop-{i}-{tag}", training, data))
        floors.append(floor(options, f"loop-floor-{tag}"))
        once.append(floor(options, f"loop-once-{tag}", "--once"))
    results = []
    for (name, _, target, target_once), mine in zip(KINDS, rates):
        results.append(compared(name, "rounds/s", mine, floors, target))
        results.append(compared("  against the floor 'weights once'", "rounds/s", mine, once,
                                target_once))
    return results
