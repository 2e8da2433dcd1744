"""A whole job on a real broker: the processes, started and killed as a user's supervisor would."""

import array
import ast
import atexit
import collections
import contextlib
import csv
import datetime
import fcntl
import functools
import gzip
import io
import json
import math
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import tempfile
import termios
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("MILLRACE_BUILD_DIR", ROOT / "build" / "release"))
PROGRAMS = BUILD / "apps"
REFERENCE_LOOP = BUILD / "tests" / "end_to_end" / "reference_loop"
SCORE_MODEL = BUILD / "tests" / "end_to_end" / "score_model"
CREATE_TOPIC = BUILD / "tests" / "kafka" / "kafka_create_topic"
DELETE_TOPICS = BUILD / "tests" / "kafka" / "kafka_delete_topics"

PATIENCE = 300  # seconds, on the slowest machine, in which something happens that will happen
CRASHES = tuple(-number for number in (signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL,
                                       signal.SIGSEGV))  # exit codes

FEATURES = [
    "--label", "verdict",
    "--numeric", "price,weight",
    "--categorical", "shop,shop*day",
    "--text", "words",
    "--categorical-buckets", "64",
    "--text-buckets", "64",
]  # fmt: skip


# What runs now. unittest's own cleanups do not come to their turn when it is interrupted, and a
# broker, which is in a session of its own, would outlive the tests and their folder.
_running = []


def runs(thing):
    """What is ended with this process: by its end()."""
    # Registered now, since what is registered last is called first: before folders are removed.
    if not _running:
        atexit.register(_end_what_runs)
    if thing not in _running:
        _running.append(thing)


def runs_no_more(thing):
    if thing in _running:
        _running.remove(thing)


def _end_what_runs():
    for thing in reversed(_running):
        thing.end()
    _running.clear()


def end_on_signals():
    """From now on SIGTERM ends this process as Ctrl-C does; at its end nothing of it is left. Whoever starts a
    program in the background may have it ignore Ctrl-C, and with it all that it starts: not this one."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def main():
    """Runs the tests of the program that was started, of which nothing is left, however it ends."""
    end_on_signals()
    unittest.main(verbosity=2)


def _catches(pid, sig):
    """Whether a process has a handler of its own for a signal."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search("SigCgt:\t([0-9a-f]+)", status).group(1), 16) >> (sig - 1) & 1 == 1


def write_csv(path, rows, seed=1):
    """Rows whose verdict follows from price, shop and words, with noise; numbers unscaled."""
    draw = random.Random(seed)
    shops = ["north", "south", "east, west", 'the "old" one']
    words = ["good", "bad", "plain", "quick", "slow", "Größe", "naïve", "new\nline"]
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["id", "verdict", "price", "weight", "shop", "day", "words"])
        for i in range(rows):
            price = draw.gauss(1e5, 2e4)
            shop = draw.randrange(len(shops))
            said = [draw.choice(words) for _ in range(draw.randint(1, 6))]
            score = (price - 1e5) / 2e4 + shop - 1.5 + said.count("good") - said.count("bad")
            score += draw.gauss(0, 1)
            verdict = "high" if score > 1 else "low" if score < -1 else "middle"
            out.writerow([i, verdict, f"{price:.2f}", f"{draw.random() * 1e-3:.6f}", shops[shop],
                          draw.randrange(7), " ".join(said)])


def record_in_bursts(path, rows_per_burst):
    """Adds a column `recorded` to a file of rows, in seconds: so many have the same one. A producer that replays
    them sends few records. At a --rate most rows are sent alone, and brokers spend more on them than on training."""
    with open(path, newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow([*header, "recorded"])
        out.writerows([*row, 1_600_000_000 + i // rows_per_burst] for i, row in enumerate(rows))


PEOPLES_FEATURES = [
    "--label", "verdict", "--classes", "low,middle,high",
    "--numeric", "price,weight", "--booleans", "paid", "--time-features", "at",
    "--categorical", "shop,shop*day", "--text", "words,Stichwörter; kurz", "--decimal-comma",
    "--missing-tokens", "k. A.", "--categorical-buckets", "64", "--text-buckets", "64",
]  # fmt: skip
# The same of the plain form.
PLAIN_FEATURES = [
    "--label", "verdict", "--classes", "low,middle,high", "--numeric", "price,weight,paid,at.days",
    "--categorical", "shop,shop*day,at.hour,at.weekday,at.month",
    "--text", "words,Stichwörter; kurz", "--categorical-buckets", "64", "--text-buckets", "64",
]  # fmt: skip


def write_two_forms(plain, peoples, rows, seed=1):
    """The rows of write_csv() with some more columns, in two forms. Plain: in UTF-8, each feature in a
    column of its own. As people have them: in windows-1252, with semicolons, decimal commas, a word
    for no value, yes and no, and times, packed by gzip in two members."""
    write_csv(plain, rows, seed)
    with open(plain, newline="", encoding="utf-8") as file:
        header, *records = list(csv.reader(file))
    header.append("Stichwörter; kurz")
    draw = random.Random(seed)
    text = io.StringIO()
    with open(plain, "w", newline="", encoding="utf-8") as file:
        out, theirs = csv.writer(file), csv.writer(text, delimiter=";")
        out.writerow([*header, "paid", "at.hour", "at.weekday", "at.month", "at.days"])
        theirs.writerow([*header, "paid", "at"])
        epoch = datetime.datetime(1970, 1, 1)
        for row in records:
            row.append(draw.choice(["süß", "sauer 5 €", "", "–"]))
            paid, hours_ahead = draw.random() < 0.3, draw.randrange(-11, 12)
            wall = epoch + datetime.timedelta(seconds=draw.randrange(2**31))
            moment, form = wall, draw.choice(["%Y-%m-%d %H:%M:%S", "%d.%m.%Y %H:%M:%S", "%Y-%m-%dT%H:%M:%S"])
            at = wall.strftime(form)
            if "T" in form:
                moment, at = wall - datetime.timedelta(hours=hours_ahead), f"{at}{hours_ahead:+03d}:00"
            price = f"{float(row[2]):,.2f}".translate({ord(","): ".", ord("."): ","})
            if draw.random() < 0.1:
                row[2], price = "", "k. a."
            out.writerow([*row, int(paid), wall.hour, wall.isoweekday(), wall.month,
                          (moment - epoch) / datetime.timedelta(days=1)])  # fmt: skip
            theirs.writerow([row[0], row[1], price, row[3].replace(".", ","), *row[4:],
                             draw.choice(["yes", "T", "On"] if paid else ["no", "F", "off"]), at])
    packed = text.getvalue().encode("cp1252")
    half = len(packed) // 2
    peoples.write_bytes(gzip.compress(packed[:half]) + gzip.compress(packed[half:]))


def count_ids(data, features):
    """Of a file of rows: how many embedding rows they name. Each value of a column of ids, and of a
    pair of columns, is one; a row of a class that was not asked for is malformed, and names none."""
    label, ids = (features[features.index(flag) + 1] for flag in ("--label", "--ids"))
    classes = None
    if "--classes" in features:
        classes = features[features.index("--classes") + 1].split(",")
    columns = [column.split("*") for column in ids.split(",")]
    with open(data, newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if not classes or row[label] in classes]
    return sum(len({tuple(row[part] for part in parts) for row in rows}) for parts in columns)


def read_npy(path):
    """The bytes of each row of an array. (Not every Python that runs the tests has NumPy.)"""
    data = path.read_bytes()
    begin = 10 + int.from_bytes(data[8:10], "little")
    header = ast.literal_eval(data[10:begin].decode())
    count, *shape = header["shape"]
    size = int(header["descr"][2:]) * math.prod(shape)
    if header["fortran_order"] or len(data) != begin + count * size:
        raise AssertionError(f"{path} is no array of {header}: it has {len(data)} bytes")
    return [data[begin + i * size:begin + (i + 1) * size] for i in range(count)]


# As bytes: values and slots of optimizer state are floats. The time of the last update is left out,
# which follows from the log's record times and not from the rows.
EmbeddingRow = collections.namedtuple("EmbeddingRow", "values slots updates")


def read_rows(folder, shards):
    """The embedding rows of a snapshot, by their ids."""
    rows = {}
    for shard in range(shards):
        arrays = [read_npy(folder / f"embedding-{what}-{shard}.npy")
                  for what in ("ids", *EmbeddingRow._fields)]
        for row_id, *row in zip(*arrays, strict=True):
            row_id = int.from_bytes(row_id, "little")
            if row_id in rows:
                raise AssertionError(f"{folder}: row {row_id} is there twice")
            rows[row_id] = EmbeddingRow(*row)
    return rows


def figures_of_model(model, data):
    """By name, as an evaluation log has them: of the rows of a CSV that an exported model predicts."""
    done = subprocess.run([SCORE_MODEL, model, data], check=True, capture_output=True, text=True)
    return dict(line.split("=") for line in done.stdout.splitlines())


def last_evaluation(log):
    """The last line of an evaluation log, by its columns' names."""
    lines = [line.split(";") for line in log.read_text().splitlines()]
    return dict(zip(lines[0], lines[-1], strict=True))


def free_port():
    """For a program that listens there later, and again when it was killed. (Below the ports that the kernel
    gives to connections and to who asks for any, and below those of scripts/kafka.)"""
    while True:
        port = random.randrange(10_000, 20_000)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


class Broker:
    def __init__(self, folder, version="4.1.0", brokers=1, options=()):
        """options: further ones of `scripts/kafka start`."""
        self.folder, self.version, self.brokers = str(folder), version, brokers
        self.options = list(options)

    def _call(self, *words):
        done = subprocess.run([ROOT / "scripts" / "kafka", *words, "--dir", self.folder],
                              check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(f"scripts/kafka {words[0]}: {done.stderr}")
        return done.stdout

    def start(self):
        runs(self)
        self._call("start", "--version", self.version, "--brokers", str(self.brokers),
                   *self.options)
        self._read_address()
        return self

    def _read_address(self):
        self.address = (pathlib.Path(self.folder) / "bootstrap").read_text().strip()

    def borrow(self):
        """One that runs, and that somebody else will end."""
        self._read_address()
        return self

    def give_back(self):
        """Without the topics of those that had it."""
        if topics := self.topics():
            self.delete(*topics)

    def kill(self, node=None):
        self._call("kill", *([] if node is None else ["--node", str(node)]))

    def signal(self, number):
        """To its one process."""
        os.kill(int((pathlib.Path(self.folder) / "node-1" / "pid").read_text().split()[0]), number)

    def stop(self):
        self._call("stop")
        runs_no_more(self)

    def discard(self):
        """At once, since nobody needs it or its data again."""
        self._call("kill")
        runs_no_more(self)

    def end(self):
        subprocess.run([ROOT / "scripts" / "kafka", "kill", "--dir", self.folder], check=False,
                       capture_output=True)

    def tool(self, *words, text=""):
        """One of Kafka's command-line tools, which reads `text`; what it prints. It takes seconds of a
        processor, so what is asked often asks kcat."""
        return subprocess.run([ROOT / "scripts" / "kafka", "--dir", self.folder, "tool", *words],
                              input=text, check=True, capture_output=True, text=True,
                              timeout=PATIENCE).stdout

    def client_settings(self):
        """Of librdkafka, for whoever may do everything."""
        return []

    def _kcat(self, *words, check=True, text=b""):
        settings = [word for setting in self.client_settings() for word in ("-X", setting)]
        # (-m: a busy broker is waited for.)
        return subprocess.run(["kcat", "-b", self.address, "-m", "60", *settings, *words],
                              input=text, check=check, capture_output=True, timeout=PATIENCE).stdout

    def create(self, topic, partitions=1, *config):
        """config: KEY=VALUE."""
        subprocess.run([CREATE_TOPIC, self.address, topic, str(partitions), *config], check=True,
                       timeout=PATIENCE)

    def topics(self):
        """The names of all but Kafka's own."""
        names = re.findall(rb'^  topic "([^"]+)"', self._kcat("-L"), re.M)
        return {name.decode() for name in names if not name.startswith(b"__")}

    def delete(self, *topics):
        subprocess.run([DELETE_TOPICS, self.address, *topics], check=True, timeout=PATIENCE)

    def delete_before(self, topic, offset):
        """The records of partition 0 before this offset."""
        partitions = [{"topic": topic, "partition": 0, "offset": offset}]
        file = pathlib.Path(self.folder) / f"delete-{topic}.json"
        file.write_text(json.dumps({"partitions": partitions, "version": 1}))
        self.tool("kafka-delete-records", "--offset-json-file", str(file))

    def send(self, texts):
        """To each of the topics records without a key, which none of ours is, one a line."""
        for topic, text in texts.items():
            self.write(topic, text.split("\n"))

    def send_keyed(self, topic, texts):
        """Records with these values as keys, too, so that they come to several partitions."""
        self.write(topic, [f"{text}|{text}" for text in texts], "-K", "|")

    def write(self, topic, lines, *flags):
        """Records, one a line, by kcat; KEY|VALUE if flags are "-K", "|"."""
        self._kcat("-P", "-t", topic, "-X", "enable.idempotence=true", *flags,
                   text="".join(f"{line}\n" for line in lines).encode())

    def write_bytes(self, topic, key, value, file):
        """A record of any bytes, which go by way of this file."""
        file.write_bytes(value)
        self._kcat("-P", "-t", topic, "-k", key, str(file))

    def offsets(self, topic, partitions, time_of):
        """An offset of each partition, `time_of`: earliest or latest; none while no broker reports them
        all."""
        which = {"earliest": -2, "latest": -1}[time_of]
        printed = self._kcat("-Q", *(word for partition in range(partitions)
                                     for word in ("-t", f"{topic}:{partition}:{which}")), check=False)
        found = dict(re.findall(rb"\[(\d+)\] offset (\d+)", printed))
        offsets = [found.get(b"%d" % partition) for partition in range(partitions)]
        return [] if None in offsets else [int(offset) for offset in offsets]

    def read(self, topic, form):
        """All committed records of a topic, printed by kcat in this form (see kcat -h), a list of bytes;
        none when it is not there."""
        printed = self._kcat("-C", "-q", "-e", "-o", "beginning", "-t", topic, "-X",
                             "isolation.level=read_committed", "-f", form + "<=END=>", check=False)
        return printed.split(b"<=END=>")[:-1]

    def count_uncommitted(self, topic):
        """So many records the topic has, those of transactions that go on or were aborted included."""
        return len(self._kcat("-C", "-q", "-e", "-o", "beginning", "-t", topic, "-X",
                              "isolation.level=read_uncommitted", "-f", ".", check=False))

    def records(self, topic, count, timeout=30):
        """The values in a topic, a line each, once they are so many; after so long those that are there."""
        end = time.monotonic() + timeout
        while len(found := self.read(topic, "%s")) < count and time.monotonic() < end:
            time.sleep(0.2)
        return b"".join(value + b"\n" for value in found)

    def keys(self, topic, may_be_empty=False):
        """Of all committed records of a topic, with whether they have a value."""
        end = time.monotonic() + PATIENCE
        while True:
            records = [record.rsplit(b"<=VALUE=>", 1) for record in self.read(topic, "%k<=VALUE=>%S")]
            if records or may_be_empty:
                return [(key, size != b"-1") for key, size in records]
            if time.monotonic() > end:
                raise AssertionError(f"no record of {topic} could be read")
            time.sleep(0.2)


class _Stream:
    """A file as somebody else writes it into a pipe."""

    BURSTS = 5  # a second

    def __init__(self, data, pipe, pace=0):
        """pace: rows a second, in bursts, each of which takes few requests to a broker. 0: as fast as can be."""
        content = data.read_bytes()
        self.pipe, self._bytes, self._given = pipe, memoryview(content), 0
        self._burst = len(content)
        if pace:
            self._burst = max(1, len(content) // content.count(b"\r\n") * pace // self.BURSTS)
        os.mkfifo(pipe)
        self._out, self._thread = None, None

    def feed(self, share):
        before, end = self._thread, round(share * len(self._bytes))
        self._thread = threading.Thread(target=self._write, args=(before, end), daemon=True)
        self._thread.start()

    def is_taken(self):
        """Whether the reader has taken all that was fed."""
        if self._thread is None or self._thread.is_alive():
            return False
        if self._out.closed:
            return True
        unread = array.array("i", [0])
        fcntl.ioctl(self._out, termios.FIONREAD, unread)
        return unread[0] == 0

    def _write(self, before, end):
        if before:
            before.join()
        try:
            self._out = self._out or open(self.pipe, "wb", buffering=0)
            while self._given < end:
                burst_end = min(end, self._given + self._burst)
                while self._given < burst_end:
                    self._given += self._out.write(self._bytes[self._given:burst_end])
                if burst_end < end:
                    time.sleep(1 / self.BURSTS)
        except BrokenPipeError:
            return  # the producer has died, which its exit code says
        if end == len(self._bytes):
            self._out.close()


class Job:
    """Processes of one job. Every process that was started is ended by close()."""

    def __init__(self, broker, name, folder, workers=4, training=(), features=FEATURES, data=None,
                 producer=(), servers=None, common=(), fed=False, pace=0):
        """servers: the shards of each ServerApp, by its name; one server of all, if not given.
        fed: the producer gets its rows from feed(), and not at once; it cannot be started again.
        pace: so many rows of those a second, in bursts (for why, see record_in_bursts)."""
        self.broker, self.name, self.folder = broker, name, pathlib.Path(folder)
        self.workers, self.training, self.features = workers, list(training), list(features)
        # Said, since a job with --rate has shorter turns than the same without, and so other bytes.
        self.data, self.producer_flags = data, ["--rows-per-turn", "5", *producer]
        self.processes, self.commands, self.logs, self.log_begins = {}, {}, {}, {}
        self.weights = self.folder / f"{name}-weights.npy"
        self.has_rows = "--ids" in self.features
        self.snapshots = self.folder / "snapshots"
        common = ["--brokers", broker.address, "--job", name, "--workers", str(workers),
                  *common]  # fmt: skip
        servers = servers or {"server": [0]}
        self.shards = sum(len(ids) for ids in servers.values())
        for server, ids in servers.items():
            self.commands[server] = [
                PROGRAMS / "ServerApp", *common, *self.training, "--data-dir", self.folder / server,
                "--weights-file", self.weights, "--checkpoint-interval", "0.3",
                "--shards", str(self.shards),
                "--server-ids", ",".join(str(i) for i in ids),
                # Of the end at least: where else are the rows?
                *(["--snapshot-dir", self.snapshots] if self.has_rows else []),
            ]  # fmt: skip
        for i in range(2):
            self.commands[f"worker{i}"] = [
                PROGRAMS / "WorkerApp", *common, "--data-dir", self.folder / f"worker{i}",
                "--session-timeout", "1.5",
            ]  # fmt: skip
        self.commands["producer"] = [
            PROGRAMS / "CsvProducer", *common, *self.features, "--input", data,
            "--reject-file", self.folder / "rejects.csv", *self.producer_flags,
        ]  # fmt: skip
        self.stream = None
        if fed:  # what can be read once only is not searched for its classes
            if "--classes" not in self.features:
                self.features += ["--classes", "low,middle,high"]
                self.commands["producer"] += ["--classes", "low,middle,high"]
            self.stream = _Stream(data, self.folder / f"{name}-stream.csv", pace)
            command = self.commands["producer"]
            command[command.index(data)] = self.stream.pipe

    def feed(self, share):
        """The producer gets rows until it has this share of all; 1: all, and their end. It does so
        beside what the caller does next, so that accidents happen in the middle of the stream,
        however slow the machine. REQUIRES: the producer has been started."""
        self.stream.feed(share)

    def start(self, *names, stdin=subprocess.DEVNULL):
        runs(self)
        for name in names or self.commands:
            log = self.folder / f"{self.name}-{name}.log"
            self.logs[name] = log
            with open(log, "a", encoding="utf-8") as out:
                self.log_begins[name] = out.tell()
                self.processes[name] = subprocess.Popen(
                    [str(word) for word in self.commands[name]], stdout=out, stderr=out,
                    stdin=stdin, cwd=self.folder)
        return self

    def kill_all(self, names):
        """At once: nobody sees another go."""
        for name in names:
            self.processes[name].kill()
        for name in names:
            self.processes[name].wait()

    def kill(self, name, sig=signal.SIGKILL):
        self.processes[name].send_signal(sig)
        return self.wait(name)

    def interrupt(self, name):
        """Ctrl-C, once the program takes notice of it; the exit code."""
        process = self.processes[name]
        while process.poll() is None and not _catches(process.pid, signal.SIGINT):
            time.sleep(0.01)
        return self.kill(name, signal.SIGINT)

    def log(self, name):
        return self.logs[name].read_text(encoding="utf-8", errors="replace")

    def said(self, name):
        """Its log since it was started last."""
        return self.logs[name].read_bytes()[self.log_begins[name]:].decode(errors="replace")

    def wait(self, name, timeout=PATIENCE):
        """The exit code."""
        end = time.monotonic() + timeout
        while (code := self.processes[name].poll()) is None:
            self.check_that_none_crashed()
            if time.monotonic() > end:
                raise AssertionError(f"{name} has not ended after {timeout} s\n{self.tails()}")
            time.sleep(0.02)
        self.check_that_none_crashed()
        return code

    def check_that_none_crashed(self):
        """A program ends by one of these signals by a fault of its own only: no test sends them. Who
        waits for what a crashed one would do ends at once, with its last words."""
        for name, process in self.processes.items():
            if (code := process.poll()) in CRASHES:
                raise AssertionError(f"{name} crashed ({signal.Signals(-code).name})\n{self.tails()}")

    def tails(self):
        """The last words of each program."""
        return "".join(f"--- {name}\n{self.log(name)[-1500:]}\n" for name in self.logs)

    def wait_for_log(self, names, text, timeout=PATIENCE):
        """names: of a process, or of several of which one says it, since it was started last."""
        names = [names] if isinstance(names, str) else names
        end = time.monotonic() + timeout
        while not any(text in self.said(name) for name in names):
            self.check_that_none_crashed()
            if time.monotonic() > end:
                logs = "\n".join(self.said(name) for name in names)
                raise AssertionError(f"'{text}' did not appear in\n{logs}")
            time.sleep(0.05)

    def wait_for_readers(self):
        """Until each shard answers, and some process reads the rows of each worker."""
        servers = [name for name in self.logs if name.startswith("server")]
        workers = [name for name in self.logs if name.startswith("worker")]
        for shard in range(self.shards):
            self.wait_for_log(servers, f"shard {shard}: answers workers")
        for worker in range(self.workers):
            self.wait_for_log(workers, f"worker {worker}: joined; reads rows")

    def wait_for_checkpoints(self, timeout=PATIENCE):
        """Until each shard has made one after some rounds: the gradients that it holds are then
        deleted."""
        end = time.monotonic() + timeout
        # A worker's first questions stand in front of its updates.
        some = 16 * self.workers
        begins = []
        while len(begins) < self.shards or any(begin < some for begin in begins):
            self.check_that_none_crashed()
            if time.monotonic() > end:
                raise AssertionError(f"not every shard has made a checkpoint: {begins}; "
                                     f"ends {self.gradients('latest')}\n{self.tails()}")
            begins = self.gradients("earliest")
            time.sleep(0.2)

    def wait_until_it_stands(self, timeout=PATIENCE):
        """Until no update comes: all rows that were fed are learnt from. How long that takes depends
        on the machine: so until nothing has come while each program has waited for something, and
        the broker has answered, as often as in a second or two of an idle machine."""
        limit = time.monotonic() + timeout
        begun = None  # since the last change: the ends of `gradients`, the programs' waits, answers
        while True:
            time.sleep(0.2)
            ends, waits = self.gradients("latest"), self._waits()
            is_changed = begun is None or not ends or ends != begun[0] or waits.keys() != begun[1].keys()
            if is_changed or not self.stream.is_taken():
                begun, answers = (ends, waits), 0
            answers += 1
            if answers > 8 and all(waits[pid] - begun[1][pid] >= 20 for pid in waits):
                return
            if time.monotonic() > limit:
                raise AssertionError(f"updates still come: {ends}")

    def _waits(self):
        """How often the main thread of each program that runs has waited for something, by pid."""
        waits = {}
        for process in self.processes.values():
            if process.poll() is not None:
                continue
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
            waits[process.pid] = int(re.search(r"^voluntary_ctxt_switches:\t(\d+)$", status, re.M)[1])
        return waits

    def gradients(self, time_of):
        """An offset of each partition; none before the topic is there."""
        return self.broker.offsets(f"{self.name}.gradients", self.shards, time_of)

    def wait_all(self, timeout=PATIENCE):
        codes = {name: self.wait(name, timeout) for name in self.processes}
        assert all(code == 0 for code in codes.values()), (codes, {
            name: self.log(name)[-2000:] for name, code in codes.items() if code != 0})

    def summary(self):
        path = self.folder / f"{self.name}-summary.json"
        subprocess.run([PROGRAMS / "Watch", "--brokers", self.broker.address, "--job", self.name,
                        "--workers", str(self.workers), "--summary", path],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       timeout=PATIENCE)
        return json.loads(path.read_text())

    def watched(self):
        """What `Watch --once --json` says of it now: the exit code, and the state."""
        done = subprocess.run([PROGRAMS / "Watch", "--brokers", self.broker.address, "--job",
                               self.name, "--once", "--json"],
                              check=False, capture_output=True, text=True, timeout=PATIENCE)
        return done.returncode, json.loads(done.stdout or "{}")

    def wait_for_rows(self, rows, timeout=PATIENCE):
        """Until the job has learnt from so many rows."""
        end = time.monotonic() + timeout
        while (learnt := self.watched()[1].get("rows_trained") or 0) < rows:
            self.check_that_none_crashed()
            if time.monotonic() > end:
                raise AssertionError(f"{learnt} of {rows} rows were learnt from in {timeout} s")
            time.sleep(0.3)  # (each question starts a program, which asks the broker)

    def rows(self):
        """The embedding rows at its end, by their ids."""
        end = self.snapshots / f"{self.name}-end"
        parts = json.loads((end / "manifest.json").read_text())["parts"]
        if len(parts) != self.shards:
            raise AssertionError(f"{end} has {len(parts)} parts of {self.shards} shards")
        rows = read_rows(end, self.shards)
        if len(rows) != sum(int(part["rows"]) for part in parts):
            raise AssertionError(f"{end} has {len(rows)} rows, its manifest says {parts}")
        return rows

    def reference(self):
        """What the reference loop ends with: the bytes of the weights file, and the embedding rows."""
        weights, rows = self.folder / "reference.npy", self.folder / "reference-rows"
        command = [REFERENCE_LOOP, "--workers", str(self.workers), *self.features, *self.training,
                   "--input", self.data, *self.producer_flags, "--output", weights]
        if self.has_rows:
            rows.mkdir(exist_ok=True)
            command += ["--rows-output", rows]
        subprocess.run([str(word) for word in command], check=True, timeout=PATIENCE)
        return weights.read_bytes(), read_rows(rows, 1) if self.has_rows else {}

    def end(self):
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()

    def close(self):
        self.end()
        runs_no_more(self)


def once_in_a_class(run):
    """The method `run` of a class of tests, which is called once: what it returns, several tests read, and none
    changes."""
    name = f"_{run.__name__}"

    @functools.wraps(run)
    def once(self):
        if name not in vars(type(self)):
            setattr(type(self), name, run(self))
        return getattr(type(self), name)

    return once


class OnABroker(unittest.TestCase):
    """What the tests of a class share: a folder, a broker without topics, and a file of so many rows. The broker is
    their own, or one that somebody lends in the folder MILLRACE_LENT_KAFKA_DIR."""

    version = "4.1.0"
    brokers = 1
    rows = 0
    needs_own_broker = False  # the tests end it, or want another one than is lent

    @classmethod
    def setUpClass(cls):
        folder = temporary_folder()
        cls.addClassCleanup(folder.cleanup)
        cls.path = pathlib.Path(folder.name)
        if cls.rows:
            cls.data = cls.path / "rows.csv"
            write_csv(cls.data, cls.rows)
        lent = os.environ.get("MILLRACE_LENT_KAFKA_DIR")
        if lent and not cls.needs_own_broker:
            cls.broker = Broker(lent, cls.version, cls.brokers).borrow()
            cls.addClassCleanup(cls.broker.give_back)
        else:
            cls.broker = cls.make_broker(cls.path / "kafka").start()
            cls.addClassCleanup(cls.broker.discard)

    @classmethod
    def make_broker(cls, folder):
        return Broker(folder, cls.version, cls.brokers)


def on_a_small_disk(folder, size, command):
    """The command, which has `folder` on a disk of its own of so many bytes (needs root)."""
    return ["unshare", "--mount", "sh", "-c",
            f'mount -t tmpfs -o size={size} none "$0" && exec "$@"', folder, *command]


def make_certificate(key, certificate, name):
    """Two PEM files: a key, and its certificate, signed by itself, of this name: DNS:HOST or IP:ADDRESS."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out",
                    certificate, "-days", "2", "-subj", "/CN=here", "-addext", f"subjectAltName={name}"],
                   check=True, capture_output=True)


def temporary_folder():
    return tempfile.TemporaryDirectory(prefix="millrace-test-")
