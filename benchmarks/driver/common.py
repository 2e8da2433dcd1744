"""What the benchmarks of whole processes share: programs started and ended, medians, the report."""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"
APPS = BUILD / "apps"
TOOLS = BUILD / "benchmarks"
WORK = ROOT / "build" / "bench"

# Each is a file of this folder.
NAMES = ("loop", "latency", "idle", "scaling", "dense", "features", "classes", "embedding",
         "replication", "recovery", "compression", "rows", "ingest", "reader", "train", "micro",
         "allreduce", "predict", "freshness", "memory", "master",
         "manager")
WORKERS = 4
TEXT = ["--label", "label", "--text", "text", "--classes", "1,2,3,4,5,6", "--text-buckets", "1024"]
# Programs that are done, but for a benchmark of how they start, are given so long.
PATIENCE_S = 300


def cpu_s(pid):
    """User and system time so far, of a process that runs."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        words = file.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


class Rate(float):
    """Something per second, and the processor time that one of it took all processes together,
    the broker among them, in milliseconds."""

    def __new__(cls, rate, cpu_ms):
        self = super().__new__(cls, rate)
        self.cpu_ms = cpu_ms
        return self


@dataclasses.dataclass
class Result:
    """A line of the table. Ours and the floor are in `unit`; `target` is what the ratio should be.
    `turns` are ours and the floor's of each turn, if there were several. `series` and `x`: where it
    stands in the benchmark's plot, if that is one of lines."""

    name: str
    ours: float
    floor: float
    unit: str
    target: str = ""
    ratio: float | None = None
    turns: tuple[list, list] = ((), ())
    series: str = ""
    x: float | None = None

    def __post_init__(self):
        if self.ratio is None:
            self.ratio = self.ours / self.floor

    def cpu_ms(self):
        """Medians of ours and the floor's; none where it was not measured."""
        return [statistics.median(rate.cpu_ms for rate in side) for side in self.turns
                if side and all(isinstance(rate, Rate) for rate in side)]


def in_turns(turns, ours, floor):
    """Calls ours(turn) and floor(turn) alternately; returns the two lists of what they return."""
    pairs = [(ours(turn), floor(turn)) for turn in range(turns)]
    return [a for a, _ in pairs], [b for _, b in pairs]


def compared(name, unit, ours, floors, target="", series="", x=None):
    """The medians; the ratio is that of the turns, which both sides spent on the same machine."""
    ratio = statistics.median(a / b for a, b in zip(ours, floors))
    return Result(name, statistics.median(ours), statistics.median(floors), unit, target, ratio,
                  (list(ours), list(floors)), series, x)


def spread(values):
    """Least, median and most."""
    digits = 0 if max(values) >= 1000 else 1 if max(values) >= 10 else 3
    return "/".join(f"{value:,.{digits}f}" for value in
                    (min(values), statistics.median(values), max(values)))


def report(name, results):
    """Prints the table and writes build/bench/NAME.json."""
    width = max(len(result.name) for result in results)
    print(f"\n{'':{width}}  {'ours':>12}  {'floor':>12}  {'ratio':>6}  {'target':>7}  unit")
    for r in results:
        digits = 0 if r.floor >= 1000 else 1 if r.floor >= 10 else 3
        print(f"{r.name:{width}}  {r.ours:12,.{digits}f}  {r.floor:12,.{digits}f}  {r.ratio:6.2f}  "
              f"{r.target:>7}  {r.unit}")
        ours, floors = r.turns
        if len(ours) > 1:
            print(f"    min/median/max of {len(ours)} turns: {spread(ours)}, floor {spread(floors)}, "
                  f"ratio {spread([a / b for a, b in zip(ours, floors)])}")
        if len(r.cpu_ms()) == 2:
            mine, least = r.cpu_ms()
            print(f"    processor time of one, with the broker's: {mine:.3f} ms, floor {least:.3f} "
                  f"ms")
    path = WORK / f"{name}.json"
    fields = ("name", "ours", "floor", "ratio", "unit", "turns", "series", "x")
    lines = [json.dumps({**{field: getattr(r, field) for field in fields}, "cpu_ms": r.cpu_ms()})
             for r in results]
    path.write_text("[\n  " + ",\n  ".join(lines) + "\n]\n", encoding="utf-8")
    print(f"\nbuild/bench/{path.name}")


def text_rows(rows, name, *flags, vw=False):
    """A file of generated texts, made once: the CSV, and if wanted the same for Vowpal Wabbit."""
    stem = WORK / "data" / f"{name}-{rows}"
    paths = [stem.with_suffix(".csv")] + ([stem.with_suffix(".vw")] if vw else [])
    maker = TOOLS / "text" / "make_text"
    if not all(p.exists() and p.stat().st_mtime > maker.stat().st_mtime for p in paths):
        stem.parent.mkdir(parents=True, exist_ok=True)
        words = [maker, "--rows", str(rows), "--csv", paths[0], *flags]
        subprocess.run(words + (["--vw", paths[1]] if vw else []), check=True)
    return paths if vw else paths[0]


class Programs:
    """Programs running at the same time. When the block is left, those still running are killed; with a
    broker, the topics FOLDER.* are deleted, which it would else compact while others are measured."""

    def __init__(self, folder, broker=None):
        self.broker = broker
        self.folder = WORK / "state" / folder
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.running = {}
        self.cpu_s = {}  # user and system time of those that have ended

    def __enter__(self):
        return self

    def __exit__(self, error, *_):
        self._kill_all()
        if self.broker:
            subprocess.run([TOOLS / "kafka" / "bare_loop", "--brokers", self.broker, "--prefix",
                            self.folder.name, "remove"], check=error is None)

    def _kill_all(self):
        for name, process in list(self.running.items()):
            os.kill(process.pid, signal.SIGKILL)  # (Popen's own would reap one that has ended)
            self._reap(name)

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def start(self, name, *words, stdin=subprocess.DEVNULL):
        with open(self.folder / f"{name}.log", "w", encoding="utf-8") as out:
            self.running[name] = subprocess.Popen([str(word) for word in words], stdout=out,
                                                  stderr=out, stdin=stdin,
                                                  cwd=self.folder)
        return self.running[name]

    def cpu_now_s(self, broker_pid):
        """Of all that run, and of the broker."""
        pids = [process.pid for process in self.running.values()]
        return sum(cpu_s(pid) for pid in [*pids, broker_pid])

    def _has_ended(self, name):
        """It is left as it is, so that _reap gets its processor time."""
        pid = self.running[name].pid
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None

    def _reap(self, name):
        process = self.running.pop(name)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.cpu_s[name] = usage.ru_utime + usage.ru_stime
        return process.returncode

    def wait(self, *names):
        """Waits until they have ended well."""
        limit = time.monotonic() + PATIENCE_S
        for name in names:
            while not self._has_ended(name):
                if time.monotonic() > limit:
                    raise RuntimeError(f"{name} does not end:\n{self.log(name)[-2000:]}")
                time.sleep(0.01)
            code = self._reap(name)
            if code != 0:
                raise RuntimeError(f"{name}: exit code {code}\n{self.log(name)[-2000:]}")

    def stop(self, *names, sig=signal.SIGTERM):
        for name in names:
            os.kill(self.running[name].pid, sig)
        for name in names:
            self._reap(name)

    @contextlib.contextmanager
    def standing(self, name):
        """Inside the block the program stands still (SIGSTOP)."""
        self.running[name].send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.running[name].pid, os.WSTOPPED | os.WNOWAIT)
        try:
            yield
        finally:
            self.running[name].send_signal(signal.SIGCONT)

    def wait_for(self, name, text, count=1):
        """Waits until the program has said `text` so many times."""
        limit = time.monotonic() + PATIENCE_S
        while True:
            has_ended = self._has_ended(name)  # before it is asked what it has said
            if self.log(name).count(text) >= count:
                return
            if has_ended or time.monotonic() > limit:
                raise RuntimeError(f"{name} does not say '{text}':\n{self.log(name)[-2000:]}")
            time.sleep(0.02)


def pass_over(options, name, features, training, csv, rows):
    """Rows per second of a job of two WorkerApps on rows that are in input-data already, from the
    start of ServerApp to the end."""
    with Job(options.broker, name, training) as job:
        job.produce(csv, features=features)
        job.wait("producer")
        before = cpu_s(options.broker_pid)
        job.serve()
        names = job.work()
        began = time.monotonic()
        job.wait("server", *names)
        seconds = time.monotonic() - began
        used = sum(job.cpu_s[each] for each in ("server", *names))
        used += cpu_s(options.broker_pid) - before
        print(f"  {name}: {rows / seconds:,.0f} rows/s, {1e6 * used / rows:.1f} µs of processor "
              f"time a row", flush=True)
    return Rate(rows / seconds, 1000 * used / rows)


class Job(Programs):
    """The programs of one job, which has the folder's name."""

    def __init__(self, broker, name, training=(), workers=WORKERS, keeps_topics=False):
        super().__init__(name, None if keeps_topics else broker)
        self.name, self.training = name, list(training)
        self.common = ["--brokers", broker, "--job", name, "--workers", str(workers)]

    def produce(self, data, *flags, features=None, stdin=subprocess.DEVNULL):
        """Starts CsvProducer."""
        return self.start("producer", APPS / "CsvProducer", *self.common, *(features or TEXT),
                          "--input", data, "--reject-file", self.folder / "rejects.csv", *flags,
                          stdin=stdin)

    def rows_per_second_sent(self):
        """What CsvProducer says at its end."""
        return float(re.search(r"\(([\d,]+) rows/s\)", self.log("producer"))[1].replace(",", ""))

    def serve(self, *flags, servers=1):
        """Starts ServerApps, with a shard each; returns their names."""
        return [self.serve_one(i, servers, *flags) for i in range(servers)]

    def serve_one(self, i, servers, *flags):
        name = "server" if i == 0 else f"server-{i}"
        self.start(name, APPS / "ServerApp", *self.common, *self.training, "--shards", servers,
                   "--server-ids", i, "--data-dir", self.folder / name, *flags)
        return name

    def work(self, processes=2):
        for i in range(processes):
            self.start(f"worker-{i}", APPS / "WorkerApp", *self.common,
                       "--data-dir", self.folder / f"worker-{i}")
        return [f"worker-{i}" for i in range(processes)]
