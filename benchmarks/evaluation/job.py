"""One job, run as a user runs it: CsvProducer, ServerApp, WorkerApps and Watch on a broker."""

import dataclasses
import json
import pathlib
import re
import shutil
import signal
import time

import programs
import straggler

# To begin, and to end when its last row has been sent; of processes that share few cores with others.
BEGIN_LIMIT_S, END_LIMIT_S = 60, 600
START_S = 2.5  # about, of what a run takes apart from its rows, on two idle cores; for plans


@dataclasses.dataclass
class Settings:
    """`rows_per_s`: None: as fast as Kafka takes them. `processes`: WorkerApps, which share the workers."""

    data: object
    features: list
    workers: int = 4
    processes: int = 2
    training: list = dataclasses.field(default_factory=list)
    rows_per_s: float | None = None
    worker_logs: bool = False
    straggler: bool = False


@dataclasses.dataclass
class Outcome:
    """`seconds`: from the start of CsvProducer, when all others wait for rows, to the end of ServerApp;
    `catch_up_s` of them: after CsvProducer has ended. `summary` and `states`: Watch's JSON at the end, and
    every two seconds. `cpu_s`, `peak_mib`: by program, the broker among them; one entry for all WorkerApps,
    of which `peak_mib` has the largest. `logs`: the evaluation logs of the WorkerApps.
    `sent_ms`: when CsvProducer ended, in milliseconds since 1970; `rows_per_s_sent`: as it says."""

    seconds: float
    catch_up_s: float
    summary: dict
    states: list
    cpu_s: dict
    peak_mib: dict
    logs: list
    job: str
    sent_ms: int
    rows_per_s_sent: float | None


class Bench:
    """Where jobs run: the programs, a broker, a folder. Topics of jobs that have ended are removed now
    and then, since a broker with many of them is slower."""

    EVERY = 20

    def __init__(self, apps, broker, folder):
        self.apps, self.broker, self.folder = pathlib.Path(apps), broker, pathlib.Path(folder)
        self.count = 0

    def run(self, settings):
        """Runs a job to its end. Throws programs.Failed."""
        self.count += 1
        if self.count % self.EVERY == 0:
            self.broker.remove_topics("evaluation-")
        name = f"evaluation-{self.count}"
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        with Job(self.apps, self.broker, name, folder, settings) as job:
            outcome = job.run()
        shutil.rmtree(folder / "state", ignore_errors=True)
        return outcome


def rate_of(said):
    """Rows per second, as CsvProducer says at its end; None: it was too quick to tell."""
    found = re.search(r"^sent .*\(([\d,]+) rows/s\)", said, re.M)
    return float(found[1].replace(",", "")) if found else None


def rows_per_turn(rows_per_s):
    """What CsvProducer chooses by itself; but for --features-only, which comes first here, it would choose 1."""
    return 256 if rows_per_s is None else min(max(int(rows_per_s / 10), 1), 32)


class Job(programs.Programs):
    def __init__(self, apps, broker, name, folder, settings):
        super().__init__(folder)
        self.apps, self.broker, self.name, self.settings = apps, broker, name, settings
        self.common = ["--brokers", broker.address(), "--job", name, "--workers", settings.workers]
        self.workers = [f"worker-{i}" for i in range(settings.processes)]

    def run(self):
        self._begin()
        straggling = straggler.Straggler(self, self.workers[0]) if self.settings.straggler else None
        broker_s = self.broker.cpu_s()
        begun = time.monotonic()
        self._start_stream()
        if straggling:
            with straggling:
                self._await_end(begun)
        else:
            self._await_end(begun)
        cpu_s, peak = self._used()
        cpu_s["broker"] = self.broker.cpu_s() - broker_s
        peak["broker"] = self.broker.peak_mib()
        self.wait(["watch"], BEGIN_LIMIT_S)
        summary = json.loads((self.folder / "summary.json").read_text(encoding="utf-8"))
        states = [json.loads(line) for line in self.log("watch").split("\n") if line.startswith("{")]
        return Outcome(self.ended_s["server"] - begun, self.ended_s["server"] - self.ended_s["producer"],
                       summary, states, cpu_s, peak, sorted(self.folder.glob("worker-*.csv")), self.name, self.sent_ms,
                       rate_of(self.log("producer")))

    def _begin(self):
        """All wait for rows at its end: a worker that joins late would get none of a short stream."""
        settings = self.settings
        self.start("features", *self._producer(), "--features-only")
        self.start("server", self.apps / "ServerApp", *self.common, *settings.training,
                   "--data-dir", self.folder / "state" / "server")
        for name in self.workers:
            log = ["--evaluation-log", self.folder / f"{name}.csv"] if settings.worker_logs else []
            self.start(name, self.apps / "WorkerApp", *self.common,
                       "--data-dir", self.folder / "state" / name, *log)
        self.wait(["features"], BEGIN_LIMIT_S)
        self.until(lambda: all("joined; reads rows" in self.log(name) for name in self.workers), BEGIN_LIMIT_S,
                   lambda: "the workers have not joined")

    def _start_stream(self):
        self.start("watch", self.apps / "Watch", *self.common, "--json",
                   "--summary", self.folder / "summary.json")
        self.start("producer", *self._producer())

    def _producer(self):
        return [self.apps / "CsvProducer", *self.common, *self.settings.features, "--input", self.settings.data,
                "--reject-file", self.folder / "rejects.csv", "--rows-per-turn", rows_per_turn(self.settings.rows_per_s),
                *([] if self.settings.rows_per_s is None else ["--rate", self.settings.rows_per_s])]

    def _await_end(self, begun):
        self.wait(["producer"], END_LIMIT_S)
        self.sent_ms = int(1000 * time.time())
        self.wait(["server", *self.workers], END_LIMIT_S + 3 * (time.monotonic() - begun))

    def _used(self):
        names = {"CsvProducer": ["producer"], "ServerApp": ["server"], "WorkerApp": self.workers}
        return ({shown: sum(self.cpu_s[name] for name in each) for shown, each in names.items()},
                {shown: max(self.peak_mib.get(name, 0) for name in each) for shown, each in names.items()})

    def __exit__(self, *arguments):
        # SIGKILL ends a stopped program, too; but what is left to itself for a moment should run.
        for name in list(self.running):
            self.signal(name, signal.SIGCONT)
        super().__exit__(*arguments)
