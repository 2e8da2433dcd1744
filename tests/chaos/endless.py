"""Streams that do not end: two jobs, a paced producer each, and whether anything goes on growing."""

import json
import pathlib
import subprocess
import sys
import time

import checks
import disks
import samples
import topology
import troubles

HERE = pathlib.Path(__file__).resolve().parent
MIB = 1 << 20
EVERY = 5  # seconds

FEATURES = ["--label", "verdict", "--classes", "low,high", "--numeric", "price,weight",
            "--text", "words", "--text-buckets", "64"]  # fmt: skip
JOBS = {
    # Ids come and go, so that embedding rows are born, checkpointed, expire, and leave every copy.
    "ids": {
        "features": [*FEATURES, "--ids", "shop,day,shop*day,id"],
        "training": ["--model", "fm", "--factors", "4", "--batch-rows", "32", "--expire-after",
                     "30", "--embedding-cache", "2", "--learning-rate", "0.05"],
        "servers": {"server0": [0], "server1": [1]},
    },
    "buffer": {
        "features": [*FEATURES, "--categorical", "shop,shop*day", "--categorical-buckets", "64"],
        "training": ["--schedule", "buffer", "--buffer-min", "128", "--buffer-max", "512",
                     "--consistency", "eventual", "--learning-rate", "0.05"],
        "servers": {"server0": [0]},
    },
}  # fmt: skip

# How much more the end may hold than the time after the beginning: what is sampled in the middle of a
# compaction, a segment, or an allocator's pool.
MEMORY_MARGIN, DISK_MARGIN = 24 * MIB, 48 * MIB
# A broker is not ours, and Java takes its heap (256 MiB) little by little, over hours. So a broker's
# memory is held against a limit, and only our programs' against growth.
BROKER_LIMIT = 512 * MIB
# Kafka frees whole segments: of the product's size two of each partition may stand. Shorter runs make
# them small, to see them go.
SHORT_MINUTES, SMALL_SEGMENT, TOPIC_MARGIN = 30, 1 * MIB, {True: 24 * MIB, False: 256 * MIB}


class Endless:
    def __init__(self, folder, cluster, network, rate):
        self.cluster, self.jobs, self.feeders = cluster, {}, []
        self.memory, self.anonymous = samples.Series(), samples.Series()
        self.disk, self.topics = samples.Series(), samples.Series()
        for name, what in JOBS.items():
            job = topology.Job(cluster, name, folder / name, workers=2, data="-",
                               producer=["--rate", str(rate // len(JOBS))],
                               common=["--replication-factor", "3"], **what)
            for program, command in job.commands.items():
                if network and program in ("server0", "server1", "worker0", "worker1", "producer"):
                    job.commands[program] = [*network.prefix(program), *command]
                if program.startswith("server") and len(job.commands) > 4:
                    job.commands[program] += ["--replicas", "1"]
            self.jobs[name] = job

    def start(self):
        for job in self.jobs.values():
            job.folder.mkdir()
            feeder = subprocess.Popen([sys.executable, "-B", HERE / "feeder.py"],
                                      stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
            self.feeders.append(feeder)
            job.start(*[name for name in job.commands if name != "producer"])
            job.start("producer", stdin=feeder.stdout)
            feeder.stdout.close()

    def small_segments(self):
        """REQUIRES: the topics are there."""
        for job in self.jobs:
            for topic in "input-data", "gradients", "weights", "parameters":
                self.cluster.tool("kafka-configs", "--alter", "--entity-type", "topics",
                                  "--entity-name", f"{job}.{topic}", "--add-config",
                                  f"segment.bytes={SMALL_SEGMENT}")

    def sample(self, now):
        """Raises AssertionError when a program has ended."""
        for name, job in self.jobs.items():
            for program, process in job.processes.items():
                used = samples.memory(process.pid)
                if process.poll() is not None:
                    raise AssertionError(f"{name}: {program} has ended with code {process.poll()}\n"
                                         f"{job.log(program)[-2000:]}")
                self.memory.add(f"{name} {program}", now, used[0])
                self.anonymous.add(f"{name} {program}", now, used[1])
                store = job.folder / program
                if store.is_dir():
                    self.disk.add(f"{name} {program}", now, disks.bytes_on_disk(store))
        for broker in self.cluster.names:
            used = samples.memory(self.cluster.pid(broker) or 0)
            if used is None:
                raise AssertionError(f"{broker} has ended")
            self.memory.add(broker, now, used[0])
        for topic, size in self.cluster.topic_bytes().items():
            self.topics.add(topic, now, size)

    def rows(self, name):
        job = self.jobs[name]
        path = job.folder / "summary.json"
        subprocess.run([topology.PROGRAMS / "Watch", "--brokers", self.cluster.address, "--job",
                        name, "--workers", "2", "--once", "--summary", path], check=False,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300)
        return json.loads(path.read_text())["rows_trained"] or 0

    def stop(self):
        """What was wrong with how they end."""
        wrong = []
        for name, job in self.jobs.items():
            for process in job.processes.values():
                process.terminate()
            for program in job.processes:
                code = job.wait(program, timeout=300)
                if code not in troubles.STOPPED:
                    wrong.append(f"{name}: {program} ended with code {code} on SIGTERM")
                wrong += [f"{name}: {program} says: {line}" for line in checks.wrong_lines(
                    job.log(program), may_have_ended=code != 0)]
        return wrong

    def close(self):
        for job in self.jobs.values():
            job.close()
        for feeder in self.feeders:
            feeder.kill()
            feeder.wait()

    def growth(self, since, small):
        """(a line for each series, what goes on growing)."""
        lines, wrong = [], []
        for what, series, margin in (
                ("memory of", self.memory, MEMORY_MARGIN),
                ("... without files, of", self.anonymous, MEMORY_MARGIN),
                ("disk of", self.disk, DISK_MARGIN),
                ("topic", self.topics, TOPIC_MARGIN[small])):
            for name in sorted(series.points):
                points = series.settled(name, since)
                per_hour = samples.slope(points) * 3600 / MIB
                first, last = points[0][1] / MIB, points[-1][1] / MIB
                line = (f"{what} {name}: {first:.1f} MiB, at most {series.peak(name) / MIB:.1f}, "
                        f"last {last:.1f}, {per_hour:+.1f} MiB an hour")
                lines.append(line)
                if series is self.memory and name in self.cluster.names:
                    if series.peak(name) > BROKER_LIMIT:
                        wrong.append(f"more than {BROKER_LIMIT // MIB} MiB: {line}")
                elif samples.grows(points, margin):
                    wrong.append(f"goes on growing: {line}")
        return lines, wrong


def run(options, folder, cluster, network, say):
    """Whether nothing goes on growing, and everything ended well."""
    stream = Endless(folder, cluster, network, options.rate)
    small = options.minutes < SHORT_MINUTES
    began, wrong = time.monotonic(), []
    try:
        stream.start()
        while not all(cluster.topic_bytes(f"{name}.weights") for name in stream.jobs):
            time.sleep(0.5)
            if time.monotonic() - began > 300:
                raise AssertionError("no weights came within 300 s")
        if small:
            say(f"so short a run has segments of {SMALL_SEGMENT // MIB} MiB (of the topics that are "
                "deleted from), to see them go; from 30 minutes on they are the product's")
            stream.small_segments()
        began, turn = time.monotonic(), 0
        while (now := time.monotonic() - began) < 60 * options.minutes:
            stream.sample(now)
            if turn % 6 == 0:
                say(f"{now / 60:5.1f} min  memory {_total(stream.memory)}, disks "
                    f"{_total(stream.disk)}, topics {_total(stream.topics)} MiB")
            turn += 1
            time.sleep(max(0.1, EVERY - (time.monotonic() - began - now)))
        trained = {name: stream.rows(name) for name in stream.jobs}
        wrong += stream.stop()
        # In the first third pools and caches are filled.
        lines, growing = stream.growth(20 * options.minutes, small)
        for line in lines:
            say(line)
        wrong += growing
        for name, rows in trained.items():
            say(f"{name}: {rows:,} rows trained on, {rows / (60 * options.minutes):.0f} a second")
            if rows < 60 * options.minutes:
                wrong.append(f"{name}: only {rows} rows were trained on")
    except (AssertionError, subprocess.SubprocessError) as error:
        wrong.append(str(error))
    finally:
        stream.close()
    if wrong:
        kept = folder.parent / "failed-endless"
        subprocess.run(["rm", "-rf", kept], check=False)
        kept.mkdir()
        for name, job in stream.jobs.items():
            for log in job.logs.values():
                (kept / log.name).write_bytes(log.read_bytes())
        cluster.keep_logs(kept)
        for sentence in wrong:
            say(f"FAILED: {sentence}")
        say(f"logs: {kept}")
    return not wrong


def _total(series):
    return f"{sum(points[-1][1] for points in series.points.values()) / MIB:.0f}"
