"""What MasterApp costs a job: at its start, when a worker dies, when a shard moves, and when it dies
itself.

A ServerApp, WorkerApps of four logical workers, sequential rounds of a row for each. A worker
process that was started by hand and has died is noticed by Kafka's consumer group after the session
timeout, 2 s here, and whoever comes into its place waits for that. Those that MasterApp has started
host what its plan gives them, and no consumer group is waited for.

  first round   seconds from the start of MasterApp until each logical worker has sent an update
                (the broker's time of it); rows trickle in. The floor: the same four programs, started
                at once by hand
  replacement   seconds from SIGKILL of one of two worker processes until each logical worker has sent
                an update again, those of the dead one by the other process, as the plan says. The
                floor: the same without MasterApp, by the consumer group
  cold start    the same of the only worker process, by the process that MasterApp starts for it. The
                floor: the same, started by hand at the moment of the death
  move          seconds from the start of `MasterApp move` until rounds go on after the pause that the
                move makes: of three server processes with a shard each, the second gives its shard to
                the third, which gives it back the next time. The floor: the second is killed
                (SIGKILL), and MasterApp starts it again with its shard
  kills         rounds per second while MasterApp is killed (SIGKILL) and started again, 20 times in
                the time that is measured (--seconds, at least 20). The floor: the same job, whose
                MasterApp nobody kills; all rows are in input-data before
"""

import os
import random
import signal
import statistics
import subprocess
import sys
import time

import loop
from common import (APPS, PATIENCE_S, ROOT, TEXT, TOOLS, WORKERS, Job, compared, cpu_s,
                    text_rows)  # fmt: skip

sys.path.append(str(ROOT / "scripts" / "lib"))
from master_processes import processes_in  # noqa: E402

LEAST_S = 20
SESSION_S = 2
RATE = 400  # rows per second: a hundred rounds
# What was on its way when a process died is in `gradients` by then. By the group nothing else can be:
# it gives its logical workers to nobody before the session timeout. By the plan the other process may
# have begun, and has then sent more: rounds take some milliseconds.
ON_ITS_WAY_MS = {"by group": 1000, "by plan": 50}
# By then a process that has been started again hosts its share (kReadyTicks), and trains.
SHARED_S = 5
# After a move or a death: rounds have paused, and go on.
PAUSED_MS = 3000
PAUSED_RATE = 2000  # rows per second: rounds are 16 ms apart, which is less than any pause
# Else updates would be deleted before they are read.
SERVER = ["--checkpoint-interval", "60"]
WORKER = ["--session-timeout", SESSION_S]


class ByMaster(Job):
    """A job that MasterApp runs."""

    server = "server-0"
    hosts = "by plan"

    def __init__(self, *words, **options):
        super().__init__(*words, **options)
        self.run_dir = self.folder / "run"
        self.flags = []
        self.cpu_of_ended_s = 0

    def _kill_all(self):
        super()._kill_all()  # the master first, or it would start the others again
        for shim, _ in processes_in(self.run_dir).values():
            try:
                os.kill(shim, signal.SIGKILL)  # it takes its command with it
            except ProcessLookupError:
                pass

    def run_master(self):
        self.start("master", APPS / "MasterApp", *self.common, *self.training, *SERVER, *WORKER,
                   "--run-dir", self.run_dir, *self.flags)

    def begin(self, data, workers, *flags):
        self.flags = [*TEXT, "--input", data, "--rate", RATE, "--reject-file",
                      self.folder / "rejects.csv", "--worker-processes", workers, *flags]  # fmt: skip
        self.run_master()

    def kill_worker(self):
        os.kill(processes_in(self.run_dir)["worker-0"][1], signal.SIGKILL)

    def mend(self):
        """Until the process has its share again."""
        time.sleep(SHARED_S)

    def _has_ended(self, name):
        """What the master started it starts again."""
        return name in self.running and super()._has_ended(name)

    def log(self, name):
        path = self.run_dir / "logs" / f"{name}.log"
        if (self.folder / f"{name}.log").exists():
            return super().log(name)
        return path.read_text(errors="replace") if path.exists() else ""

    def _reap(self, name):
        code = super()._reap(name)
        self.cpu_of_ended_s += self.cpu_s[name]
        return code

    def cpu_now_s(self, broker_pid):
        started = [pid for pids in processes_in(self.run_dir).values() for pid in pids if pid]
        return super().cpu_now_s(broker_pid) + self.cpu_of_ended_s + sum(map(cpu_s, started))


class ByHand(Job):
    """The same, where each program is started by itself. A worker that has died is, too."""

    server = "server"
    hosts = "by group"

    def begin(self, data, workers):
        self.serve(*SERVER)
        for i in range(workers):
            self.work_one(i)
        self.produce(data, "--rate", RATE)

    def work_one(self, i):
        self.start(f"worker-{i}", APPS / "WorkerApp", *self.common, *WORKER, "--data-dir",
                   self.folder / f"worker-{i}")

    def kill_worker(self):
        self.stop("worker-0", sig=signal.SIGKILL)
        self.work_one(0)

    def mend(self):
        pass


class ByTwo(ByHand):
    """A worker that has died is started again when the other one has taken over."""

    def kill_worker(self):
        self.stop("worker-0", sig=signal.SIGKILL)

    def mend(self):
        self.work_one(0)
        self.wait_for("worker-0", "joined; reads rows")


class Updates:
    """The updates of a job whose server answers, to its first shard."""

    def __init__(self, job):
        self.job = job
        job.wait_for(job.server, "answers workers")
        job.start("updates", TOOLS / "kafka" / "job_updates", *job.common)

    def all_after(self, ms):
        """Waits until each logical worker has sent one at that time or later; when the last of them
        had, in milliseconds."""
        limit = time.monotonic() + PATIENCE_S
        while True:
            first = {}
            for line in self.job.log("updates").split("\n")[:-1]:
                at, worker, _ = line.split()
                if int(at) >= ms:
                    first.setdefault(worker, int(at))
            if len(first) == WORKERS:
                return max(first.values())
            self.wait_for_more(limit)

    def wait_for_more(self, limit):
        if self.job.running["updates"].poll() is not None or time.monotonic() > limit:
            raise RuntimeError(f"{self.job.name}: not every worker has sent an update:\n"
                               f"{self.job.log('updates')[-2000:]}")
        time.sleep(0.02)

    def pause_after(self, ms):
        """The longest time without an update in PAUSED_MS after that time: its begin and its end."""
        limit = time.monotonic() + PATIENCE_S
        while True:
            times = [int(line.split()[0]) for line in self.job.log("updates").split("\n")[:-1]]
            times = [ms, *(at for at in times if at >= ms)]
            if times[-1] > ms + PAUSED_MS:
                return max(zip(times, times[1:]), key=lambda pause: pause[1] - pause[0])
            self.wait_for_more(limit)


def first_round(options, kind, name, data):
    """Seconds from the start of the first program until each logical worker has sent an update."""
    with kind(options.broker, name, loop.SPARSE) as job:
        began_ms = time.time() * 1000
        job.begin(data, 2)
        seconds = (Updates(job).all_after(began_ms) - began_ms) / 1000
    print(f"  {name}: {seconds:.2f} s", flush=True)
    return seconds


def deaths(options, kind, name, data, workers):
    """Seconds from each death of a worker process until each logical worker has sent an update again."""
    draw = random.Random(1)
    seconds = []
    with kind(options.broker, name, loop.SPARSE) as job:
        job.begin(data, workers)
        updates = Updates(job)
        for _ in range(options.master_kills):
            updates.all_after(time.time() * 1000)
            time.sleep(draw.uniform(0.5, 1.5))
            died_ms = time.time() * 1000
            job.kill_worker()
            seconds.append((updates.all_after(died_ms + ON_ITS_WAY_MS[job.hosts]) - died_ms) / 1000)
            if workers > 1:
                job.mend()
    p95 = sorted(seconds)[round(0.95 * (len(seconds) - 1))]
    print(f"  {name}: {len(seconds)} deaths, seconds until training goes on: least "
          f"{min(seconds):.2f}, median {statistics.median(seconds):.2f}, 95th percentile {p95:.2f}, "
          f"most {max(seconds):.2f}", flush=True)
    return seconds


def pauses(options, name, data, disturb):
    """Seconds from each disturb(job, i) until rounds go on after the pause that it makes."""
    draw = random.Random(1)
    seconds, stood = [], []
    with ByMaster(options.broker, name, loop.SPARSE) as job:
        job.begin(data, 2, "--shards", 3, "--rate", PAUSED_RATE)
        for i in range(3):
            job.wait_for(f"server-{i}", "answers workers")
        updates = Updates(job)
        for i in range(options.master_kills):
            updates.all_after(time.time() * 1000)
            time.sleep(draw.uniform(0.5, 1.5))
            began_ms = time.time() * 1000
            disturb(job, i)
            begin_ms, end_ms = updates.pause_after(began_ms)
            seconds.append((end_ms - began_ms) / 1000)
            stood.append((end_ms - begin_ms) / 1000)
    for what, values in ("seconds until rounds go on", seconds), ("of these without a round", stood):
        print(f"  {name}: {len(values)} times, {what}: least {min(values):.2f}, median "
              f"{statistics.median(values):.2f}, most {max(values):.2f}", flush=True)
    return seconds


def move(job, i):
    """To the third server process and back, by turns."""
    subprocess.run([APPS / "MasterApp", "move", *map(str, job.common), "--shard", "1", "--to",
                    f"server-{2 - i % 2}"], check=True, stdout=subprocess.DEVNULL)  # fmt: skip


def kill_server(job, _):
    os.kill(processes_in(job.run_dir)["server-1"][1], signal.SIGKILL)


def rounds(options, name, data, kills):
    """Rounds per second while MasterApp is killed so many times."""
    with ByMaster(options.broker, name, loop.SPARSE) as job:
        job.produce(data)
        job.wait("producer")
        job.run_master()
        job.wait_for("master", "worker-1 runs")
        job.start("rounds", TOOLS / "kafka" / "job_rounds", *job.common)
        window, read, killed = loop.Window(options.seconds), 0, 0
        limit = time.monotonic() + PATIENCE_S
        begun = None
        while window.end is None:
            if time.monotonic() > limit:
                raise RuntimeError(f"{name}: its rounds are too slow, or its rows were too few")
            time.sleep(0.02)
            read = loop.add_rounds(job, options, window, read)
            if window.begin is None:
                continue
            begun = begun or time.monotonic()
            if killed < kills and time.monotonic() > begun + 0.9 * killed * options.seconds / kills:
                job.stop("master", sig=signal.SIGKILL)
                job.run_master()
                killed += 1
        assert killed == kills, (killed, kills)
        rate = window.rate()
    print(f"  {name}: {rate:.1f} rounds/s, {rate.cpu_ms:.3f} ms of processor time a round",
          flush=True)
    return rate


def run(options):
    options = loop.lasting(options, LEAST_S)
    data = text_rows(int(12000 * (loop.WARM_UP_S + options.seconds)), "words",
                     "--min-words", "1", "--max-words", "3")
    kills, stamp = options.master_kills, options.stamp
    loop.warm_up(options, "master", data)
    begun, by_hand, killed, alone = [], [], [], []
    for turn in range(options.turns):
        tag = f"{stamp}-{turn}"
        begun.append(first_round(options, ByMaster, f"master-first-{tag}", data))
        by_hand.append(first_round(options, ByHand, f"master-first-by-hand-{tag}", data))
        killed.append(rounds(options, f"master-killed-{tag}", data, kills))
        alone.append(rounds(options, f"master-alone-{tag}", data, 0))
    replaced = deaths(options, ByMaster, f"master-replaced-{stamp}", data, 2)
    taken = deaths(options, ByTwo, f"master-taken-over-{stamp}", data, 2)
    cold = deaths(options, ByMaster, f"master-cold-{stamp}", data, 1)
    again = deaths(options, ByHand, f"master-started-again-{stamp}", data, 1)
    moved = pauses(options, f"master-moved-{stamp}", data, move)
    restarted = pauses(options, f"master-server-killed-{stamp}", data, kill_server)
    return [
        compared("from MasterApp to the first round", "s", begun, by_hand),
        compared("from a worker's death to its replacement", "s", replaced, taken),
        compared("  by a process of its own, a cold start", "s", cold, again),
        compared("from MasterApp move to the next round", "s", moved, restarted),
        compared(f"rounds while MasterApp dies {kills} times", "rounds/s", killed, alone),
    ]
