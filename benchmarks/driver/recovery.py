"""Seconds from the start of a killed ServerApp to its shard's first answer, by where its copy is.

Two ServerApps with a shard each and a replica of the other's, while two WorkerApps train on rows
that trickle in. One server is killed (SIGKILL) and started again: with its folder (own disk);
without, while the other gives it the replica (GetReplica); and without, when the other is gone, too
(the topic). Tables of embedding rows of 16 floats (and as many of AdaGrad's state), and a dense
model; the sizes are those of the shard that comes back. Both sides count from the start of their
process, and the files come from the page cache, as they do where only the process has died.

The floors are the same bytes, by the barest means:

  own disk  bare RocksDB (benchmarks/stores/open_store.cc) opens a copy of the folder as the kill has
            left it, and reads what must be in memory: the dense blocks and the state
  replica   the files of the other server's replica are copied and synced, and opened as above
  topic     bare librdkafka (benchmarks/kafka/bare_read.cc) reads the partition of `parameters`
"""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import threading
import time

import dense
import embedding
from common import Job, PATIENCE_S, Result, TOOLS, WORKERS, compared

COLUMNS = embedding.COLUMNS
BATCH_ROWS = 200
TRAINING = ["--model", "fm", "--factors", "15", "--batch-rows", BATCH_ROWS,
            "--learning-rate", "0.01"]
TABLES = (10_000, 1_000_000)  # and more by --recovery-rows
DENSE = 1_000_000
SOURCES = {"own disk": "own disk", "replica": "replica of ", "topic": "no copy, all of parameters"}
SERVERS = 2
TRICKLE = 50  # updates between checkpoints, when the table is loaded
KILLED, OTHER = "server-1", "server"


def table_lines(rows):
    """Each id once, and then random ones, without an end; with pauses."""
    yield "label," + ",".join(f"id{i}" for i in range(COLUMNS)), 0
    per_column = SERVERS * rows // COLUMNS
    for i in range(per_column):
        yield "ab"[i % 2] + f",{i}" * COLUMNS, 0
    draw = random.Random(1)
    while True:
        ids = ",".join(str(draw.randrange(per_column)) for _ in range(COLUMNS))
        yield f"{'ab'[draw.randrange(2)]},{ids}", 1 / 2000


def dense_lines(weights):
    columns = weights // dense.CLASSES - 1
    draw = random.Random(1)
    yield "label," + ",".join(f"x{i}" for i in range(columns)), 0
    while True:
        values = ",".join(draw.choices(("-.2", "-.1", "0", ".1", ".2"), k=columns))
        yield f"c{draw.randrange(dense.CLASSES)},{values}", 1 / 8


def feed(pipe, lines):
    owed = 0
    try:
        for line, pause in lines:
            pipe.write(f"{line}\n".encode())
            owed += pause
            if owed > 0.1:
                pipe.flush()
                time.sleep(owed)
                owed = 0
    except (BrokenPipeError, ValueError):
        pass  # the job is over


class Case:
    """A job that trains until it is left."""

    def __init__(self, options, name, training, features, lines, rounds):
        self.job = Job(options.broker, name, training)
        self.broker, self.lines = options.broker, lines
        self.features, self.rounds = features, rounds
        self.flags = ["--replicas", 1, "--replica-listen", "127.0.0.1:0"]

    def __enter__(self):
        with contextlib.ExitStack() as stack:  # a start that fails leaves no programs either
            job = stack.enter_context(self.job)
            producer = job.produce("-", "--quiet", features=self.features, stdin=subprocess.PIPE)
            self.pipe = producer.stdin
            threading.Thread(target=feed, args=(self.pipe, self.lines), daemon=True).start()
            job.serve(*self.flags, servers=SERVERS)
            job.work()
            job.start("rounds", TOOLS / "kafka" / "job_rounds", *job.common)
            self.train(self.rounds)
            self.running = stack.pop_all()
        return self

    def __exit__(self, *error):
        self.running.__exit__(*error)

    def figures(self):
        """Rounds done, and updates that are not saved."""
        lines = self.job.log("rounds").rsplit("\n", 1)[0].split("\n")
        _, rounds, _, unsaved = map(int, lines[-1].split()) if lines[-1] else (0, 0, 0, 0)
        return rounds, unsaved

    def train(self, rounds):
        """So many, until the stream only trickles; and until checkpoints have all but the last."""
        before, changed = None, time.monotonic()
        while True:
            now = done, unsaved = self.figures()
            if done >= rounds and unsaved <= TRICKLE:
                break
            if now != before:
                before, changed = now, time.monotonic()
            if time.monotonic() > changed + PATIENCE_S:
                raise RuntimeError(f"{self.job.name} does not get on: {now}")
            time.sleep(0.1)
        time.sleep(3)  # for the replica

    def folder(self, server, kind):
        """Of shard 1: its own store, or the replica."""
        found = [p for p in (self.job.folder / server).iterdir() if p.name.endswith(kind)]
        assert len(found) == 1, found
        return found[0]

    def come_back(self, source):
        """Kills the server, and takes from it what it must not have; seconds to its answer."""
        job = self.job
        job.stop(KILLED, sig=signal.SIGKILL)
        copy = job.folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        if source == "own disk":
            shutil.copytree(self.folder(KILLED, "shard-1"), copy)
        else:
            shutil.rmtree(job.folder / KILLED)
        if source == "topic":
            job.stop(OTHER, sig=signal.SIGKILL)
        began = time.monotonic()
        job.serve_one(1, SERVERS, *self.flags)
        job.wait_for(KILLED, "shard 1: answers workers")
        seconds = time.monotonic() - began
        job.wait_for(KILLED, "shard 1: recovered in ")
        said = next(line for line in job.log(KILLED).splitlines() if "recovered in" in line)
        print(f"  {job.name}: {seconds:.2f} s; {said[said.index('shard 1'):]}", flush=True)
        assert f"({SOURCES[source]}" in said, said
        return seconds

    def floor(self, source):
        job = self.job
        copy = job.folder / "copy"
        began = time.monotonic()
        if source == "replica":
            with job.standing(OTHER):  # or RocksDB merges away a file that is not copied yet
                copy_files(self.folder(OTHER, "shard-1-replica"), copy)
        if source == "topic":
            subprocess.run([TOOLS / "kafka" / "bare_read", "--brokers", self.broker, "--topic",
                            f"{job.name}.parameters", "--partition", "1"], check=True)
        else:
            subprocess.run([TOOLS / "stores" / "open_store", copy], check=True)
        seconds = time.monotonic() - began
        print(f"  {job.name}, floor: {seconds:.2f} s", flush=True)
        return seconds

    def settle(self, source):
        """Until all is as it was."""
        if source == "topic":
            self.job.serve_one(0, SERVERS, *self.flags)
            self.job.wait_for(OTHER, "shard 0: answers workers")
        self.train(self.figures()[0] + 5)


def copy_files(source, target):
    target.mkdir(exist_ok=True)
    for path in source.iterdir():
        if path.is_file() and path.name != "LOCK":
            shutil.copyfile(path, target / path.name)
            with open(target / path.name, "rb") as file:
                os.fsync(file.fileno())


def measure(options, what, case, limit):
    results = []
    with case:
        ours = {source: [] for source in SOURCES}
        floors = {source: [] for source in SOURCES}
        for _ in range(options.turns):
            for source in SOURCES:
                ours[source].append(case.come_back(source))
                floors[source].append(case.floor(source))
                case.settle(source)
        for source in SOURCES:
            target = f"<= {limit} s" if source == "own disk" and limit else ""
            results.append(compared(f"{what}, {source}", "s", ours[source], floors[source], target))
    return results


def run(options):
    results: list[Result] = []
    name = f"recovery-{options.stamp}"
    tables = (options.recovery_rows,) if options.recovery_rows else TABLES
    for rows in tables:
        rounds = SERVERS * rows // (WORKERS * BATCH_ROWS * COLUMNS)
        case = Case(options, f"{name}-{rows}", TRAINING, embedding.FEATURES, table_lines(rows),
                    rounds)
        results += measure(options, f"table of {rows:,} rows", case, 3 if rows <= 1_000_000 else 30)
    if not options.recovery_rows:
        weights = SERVERS * DENSE
        case = Case(options, f"{name}-dense", dense.TRAINING, dense.features(weights),
                    dense_lines(weights), 10)
        results += measure(options, f"dense model of {DENSE:,} weights", case, 1)
    return results
