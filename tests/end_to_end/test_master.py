"""MasterApp runs whole jobs on a real broker, while everything it starts is killed, and it too."""

import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "scripts" / "lib")]
import topology  # noqa: E402
from master_processes import processes_in  # noqa: E402

SEQUENTIAL = ["--consistency", "sequential", "--batch-rows", "16", "--learning-rate", "0.2",
              "--l2", "0.0001"]  # fmt: skip
MASTER = topology.PROGRAMS / "MasterApp"
BURSTS_PER_SECOND = 5
REPLAY = ["--time-column", "recorded", "--speedup", str(BURSTS_PER_SECOND)]
INCARNATION_BEGINS = r"incarnation (\d+): begins"


class MasterJob(topology.Job):
    """A job that MasterApp runs. What it started is ended by close(), too."""

    def __init__(self, broker, name, folder, flags=(), **options):
        super().__init__(broker, name, folder, **options)
        self.run_dir = self.folder / "run"
        rows = [*self.features, "--input", self.data, "--reject-file", self.folder / "rejects.csv",
                *self.producer_flags] if self.data else []  # fmt: skip
        self.commands = {"master": [
            MASTER, "--brokers", broker.address, "--job", name, "--workers", str(self.workers),
            *self.training, *rows, "--weights-file", self.weights, "--checkpoint-interval", "0.3",
            "--session-timeout", "1.5", "--run-dir", self.run_dir, *flags,
        ]}  # fmt: skip

    def running(self):
        return processes_in(self.run_dir)

    @staticmethod
    def kill_pid(pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def kill_process(self, name):
        """SIGKILL, once it runs: one that was killed before may not have been started again yet."""
        end = time.monotonic() + topology.PATIENCE
        while not (running := self.running().get(name)) or not running[1]:
            if time.monotonic() > end:
                raise AssertionError(f"{name} does not run\n{self.log('master')}")
            time.sleep(0.02)
        self.kill_pid(running[1])

    def ask(self, command, *flags, code=0):
        # (On a busy machine a broker may not answer for the five seconds that a person waits.)
        done = subprocess.run([MASTER, command, "--brokers", self.broker.address, "--job", self.name,
                               "--broker-timeout", str(topology.PATIENCE), *flags], check=False,
                              capture_output=True, text=True, timeout=topology.PATIENCE)  # fmt: skip
        if done.returncode != code:
            raise AssertionError(f"{command}: exit code {done.returncode}\n{done.stderr}")
        return done.stdout

    def status(self):
        return json.loads(self.ask("status", "--json"))

    def wait_for_phases(self, phases, timeout=topology.PATIENCE):
        """Until the phases of all processes, in the order of their names, are these."""
        end = time.monotonic() + timeout
        while (now := [each["phase"] for each in self.status()["processes"]]) != phases:
            if time.monotonic() > end:
                raise AssertionError(f"{now} instead of {phases}\n{self.log('master')}")
            time.sleep(0.3)

    def wait_for_hosts(self, wanted):
        """wanted: by the processes that host some, the logical workers of each."""
        end = time.monotonic() + topology.PATIENCE
        while (now := {each["name"]: each["workers"] for each in self.status()["processes"]
                       if each["workers"]}) != wanted:
            if time.monotonic() > end or self.processes["master"].poll() is not None:
                raise AssertionError(f"{now} instead of {wanted}\n{self.log('master')}")
            time.sleep(0.3)

    def wait_for_log_of(self, process, text, times=1):
        end = time.monotonic() + topology.PATIENCE
        log = self.run_dir / "logs" / f"{process}.log"
        while not log.exists() or log.read_text(errors="replace").count(text) < times:
            if time.monotonic() > end:
                raise AssertionError(f"{process} does not say {text}, {times} times\n{self.log('master')}")
            time.sleep(0.05)

    def start_without_a_rate(self):
        """Again, so that the rest of its rows come at once."""
        command = self.commands["master"]
        pace = REPLAY if REPLAY[0] in command else ["--rate", "any"]
        begin = command.index(pace[0])
        del command[begin:begin + len(pace)]
        self.start("master")

    def end(self):
        super().end()
        for shim, command in self.running().values():
            self.kill_pid(shim)
            if command:
                self.kill_pid(command)


class OnABroker(topology.OnABroker):
    def job(self, flags=(), rows=0, rate=0, name=None, **options):
        """rate: so many of its rows come a second, in bursts (for why, see record_in_bursts)."""
        name = name or self.id().rsplit(".", 1)[-1].replace("_", "-")[:60]
        folder = self.path / name
        folder.mkdir()
        data = None
        if rows:
            data = folder / "rows.csv"
            topology.write_csv(data, rows)
        if rate:
            topology.record_in_bursts(data, max(1, rate // BURSTS_PER_SECOND))
            flags = [*flags, *REPLAY]
        options.setdefault("training", SEQUENTIAL)
        options.setdefault("data", data)
        job = MasterJob(self.broker, name, folder, flags, **options)
        self.addCleanup(job.close)
        return job

    def sleepers(self, *flags):
        """A job of processes that only run."""
        return self.job(["--server-processes", "0", "--worker-command", "sleep 1000", *flags],
                        training=[])

    def assert_ended_well(self, job):
        self.assertEqual(job.wait("master"), 0, job.log("master"))
        self.assertEqual(job.running(), {})
        weights, _ = job.reference()
        self.assertEqual(job.weights.read_bytes(), weights)

    def assert_started_once(self, job):
        """Each incarnation, by the lines that stand in the logs of the processes."""
        for log in (job.run_dir / "logs").iterdir():
            begun = re.findall(INCARNATION_BEGINS, log.read_text(errors="replace"), re.M)
            self.assertTrue(begun, log)
            self.assertEqual(len(begun), len(set(begun)), (log, begun))


class Jobs(OnABroker):
    def assert_a_full_disk_is_told(self, job):
        watch = topology.PROGRAMS / "Watch"
        for words in ([watch, "--once"], [watch, "--once", "--json"], [watch], [MASTER, "status"]):
            with open("/dev/full", "w", encoding="ascii") as full:
                done = subprocess.run([*words, "--brokers", self.broker.address, "--job", job.name], check=False,
                                      stdout=full, stderr=subprocess.PIPE, text=True,
                                      timeout=topology.PATIENCE)  # fmt: skip
            self.assertEqual(done.returncode, 1, words)
            self.assertIn("standard output cannot be written: No space left", done.stderr)

    def test_run_to_their_end_by_one_command(self):
        job = self.job(["--shards", "2"], rows=3000).start()
        self.assert_ended_well(job)
        status = job.status()
        self.assertEqual(status["phase"], "ended")
        self.assertEqual([each["name"] for each in status["processes"]],
                         ["producer-0", "server-0", "server-1", "worker-0", "worker-1"])
        self.assertEqual({each["last_end"]["text"] for each in status["processes"]}, {"exit code 0"})
        self.assertIsNone(status["worse_than_prior"])
        # There is nothing to be done any more.
        job.start("master")
        self.assertEqual(job.wait("master"), 0)
        self.assertIn("has ended; nothing is started", job.said("master"))

    def test_whose_models_are_worse_than_nothing_are_called_so_by_status(self):
        job = self.job(rows=3000, training=["--batch-rows", "16", "--optimizer", "sgd", "--learning-rate", "100"])
        job.start()
        self.assertEqual(job.wait("master"), 0, job.log("master"))
        text = "the model is worse than always answering the frequencies of the classes"
        self.assertIn(text, job.status()["worse_than_prior"])
        self.assertRegex(job.ask("status"), f"\nWarning: after [0-9]+ rows {text}")

    def test_end_in_the_same_bytes_whoever_is_killed(self):
        job = self.job(rate=500, rows=8000).start()
        draw = random.Random(1)
        job.wait_for_log("master", "worker-1 runs")
        job.wait_for_phases(["running"] * 4)
        masters, deaths = 0, set()
        # Half of them have a death to tell of, or to answer, when they die.
        while masters < 20 and job.processes["master"].poll() is None:
            running = sorted(job.running().items())
            if running and draw.random() < 0.5:
                name, (shim, command) = draw.choice(running)
                victim = shim if draw.random() < 0.2 else command
                if victim:
                    job.kill_pid(victim)
                    deaths.add((name, shim))
            time.sleep(draw.uniform(0, 1.2))
            job.kill("master")
            job.start("master")
            masters += 1
        self.assert_ended_well(job)
        self.assert_started_once(job)
        self.assertEqual(job.summary()["rows_trained"], 8000)
        # (One that was killed when it had done its work is not started again.)
        restarts = sum(each["restarts"] for each in job.status()["processes"])
        self.assertLessEqual(restarts, len(deaths), (masters, job.log("master")))

    def test_end_in_the_same_bytes_when_workers_come_after_all_rows(self):
        job = self.job(["--worker-processes", "0"], rows=1000).start()
        job.wait_for_log("master", "producer-0 has ended: exit code 0")
        job.kill("master")
        command = job.commands["master"]
        command[command.index("--worker-processes") + 1] = "2"
        job.start("master")
        self.assert_ended_well(job)
        self.assertEqual(job.summary()["rows_trained"], 1000)

    def test_that_are_stopped_go_on_later(self):
        # (Rows for minutes: it must not have ended before it is stopped, however slow this machine is.)
        job = self.job(rate=20, rows=4000).start()
        job.wait_for_rows(100)
        # One with other settings is refused before it takes the job over.
        for changed, words in ((["--workers", "9"], f"started with --workers {job.workers}, here are 9"),
                               (["--l2", "0.5"], "another set of training settings"),
                               (["--label", "x1"], "another set of features")):  # fmt: skip
            job.commands["other"] = [*job.commands["master"], *changed]
            job.start("other")
            self.assertEqual(job.wait("other"), 1, job.said("other"))
            self.assertIn(words, job.said("other"))
        self.assert_a_full_disk_is_told(job)
        self.assertEqual(job.interrupt("master"), 130)
        self.assertEqual(job.running(), {})
        self.assertEqual(job.status()["phase"], "stopped")
        stopped = re.findall(r"(\S+) was stopped: exit code 130", job.said("master"))
        self.assertEqual(stopped[-1], "server-0", job.said("master"))
        job.start_without_a_rate()
        self.assert_ended_well(job)


class Shards(OnABroker):
    """Shards move between server processes while the job trains."""

    def move(self, job, shard, to, code=0):
        return job.ask("move", "--shard", str(shard), "--to", to, code=code)

    @staticmethod
    def of(job):
        return ["--brokers", job.broker.address, "--job", job.name]

    @staticmethod
    def hosts(job):
        """By the processes that host some, the shards of each."""
        return {each["name"]: each["shards"] for each in job.status()["processes"] if each["shards"]}

    def test_move_and_the_bytes_stay_the_same_whoever_is_killed(self):
        job = self.job(["--shards", "3", "--server-processes", "2"], rate=500, rows=8000).start()
        draw = random.Random(1)
        job.wait_for_log("master", "worker-1 runs")
        moves = 0
        while moves < 12 and job.processes["master"].poll() is None:
            hosts = self.hosts(job)
            source = draw.choice(sorted(hosts))
            to = "server-1" if source == "server-0" else "server-0"
            shard = draw.choice(hosts[source])
            # Written to `control`, whether a master is there or not.
            asking = subprocess.Popen([MASTER, "move", *self.of(job), "--shard", str(shard), "--to", to],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(draw.uniform(0, 0.8))
            for victim in draw.sample([source, to, "master"], draw.randint(0, 3)):
                if victim == "master":
                    job.kill("master")
                    job.start("master")
                elif victim in (running := job.running()) and running[victim][1]:
                    job.kill_pid(running[victim][1])
                time.sleep(draw.uniform(0, 0.3))
            asking.wait()
            moves += asking.returncode == 0
        self.assertGreaterEqual(moves, 3)
        self.assert_ended_well(job)
        self.assertEqual(job.summary()["rows_trained"], 8000)

    def test_move_to_a_process_that_goes_on_with_them_and_back(self):
        job = self.job(["--shards", "2"], rate=150, rows=2000).start()
        job.wait_for_rows(100)
        before = job.running()
        self.move(job, 0, "server-1")
        job.wait_for_log_of("server-1", "shard 0: answers workers")
        self.assertEqual(self.hosts(job), {"server-1": [0, 1]})
        self.assertRegex(job.ask("status"), r"server-1 +running +shards 0-1 ")
        self.assertIn("shard 0 moves from server-0 to server-1", job.log("master"))
        self.assertEqual(job.running(), before)
        # Its store is of no use there any more, and takes room.
        store = job.run_dir / "server-0" / f"{job.name}-shard-0"
        end = time.monotonic() + topology.PATIENCE
        while store.exists():
            self.assertLess(time.monotonic(), end, f"{store} is still there")
            time.sleep(0.05)
        self.move(job, 0, "server-0")
        job.wait_for_log_of("server-0", "shard 0: answers workers", 2)
        self.assertEqual(job.running(), before)  # no process was started for it
        self.assert_ended_well(job)
        self.assertEqual(job.summary()["rows_trained"], 2000)

    def test_are_dealt_out_again_over_another_number_of_processes(self):
        job = self.job(["--shards", "3", "--server-processes", "1"], rate=150, rows=2000).start()
        job.wait_for_rows(100)
        job.kill("master")
        command = job.commands["master"]
        command[command.index("--server-processes") + 1] = "3"
        job.start("master")
        job.wait_for_log_of("server-2", "answers workers")
        self.assertEqual(self.hosts(job), {"server-0": [0], "server-1": [1], "server-2": [2]})
        self.assert_ended_well(job)

    def test_move_to_where_a_replica_is_and_to_where_none_is(self):
        job = self.job(["--shards", "3", "--replicas", "1", "--replica-listen", "127.0.0.1:0"],
                       rate=150, rows=4000).start()  # fmt: skip
        job.wait_for_log_of("server-1", "shard 0: this server keeps a replica")
        job.wait_for_rows(150)
        self.move(job, 0, "server-2")
        job.wait_for_log_of("server-2", "shard 0: answers workers")
        taker = (job.run_dir / "logs" / "server-2.log").read_text(errors="replace")
        # (Of a peer that does not answer in time no replica is taken.)
        self.assertRegex(taker, "shard 0: (received its replica from 127.0.0.1:|no usable replica from)")
        self.move(job, 0, "server-1")
        job.wait_for_log_of("server-1", "shard 0: uses the replica that this server kept")
        job.wait_for_log_of("server-1", "shard 0: answers workers")
        self.move(job, 0, "server-0")
        job.wait_for_log_of("server-0", "shard 0: answers workers", 2)
        self.assert_ended_well(job)
        self.assertEqual(job.summary()["rows_trained"], 4000)

    def test_move_while_the_cut_of_a_snapshot_goes_through_them(self):
        # (Rows for minutes, of which the rest is not waited for.)
        job = self.job(["--shards", "3", "--server-processes", "2"], rate=60, rows=8000)
        job.commands["master"] += ["--snapshot-dir", job.snapshots]
        command = [topology.PROGRAMS / "ServerApp", *self.of(job), "--workers", str(job.workers), "--shards",
                   "3", "--snapshot-dir", job.snapshots, "--checkpoint-now"]  # fmt: skip

        def ask():
            asking = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(asking.wait)
            self.addCleanup(asking.kill)
            return asking

        job.start().wait_for_rows(100)
        draw = random.Random(1)
        for i in range(6):  # such a snapshot may get lost, but the job goes on
            ask()
            time.sleep(draw.uniform(0, 0.3))
            self.move(job, 2, f"server-{1 - i % 2}")
            job.wait_for_rows(job.watched()[1]["rows_trained"] + 40)
        end = time.monotonic() + topology.PATIENCE
        while ask().wait() != 0:  # (as long as one that was disturbed is on its way, it is refused)
            self.assertLess(time.monotonic(), end, job.log("master"))
        job.kill("master")
        job.start_without_a_rate()
        self.assert_ended_well(job)
        # Those that are whole are right: a job goes on from the first one to the same bytes.
        taken = sorted(folder for folder in job.snapshots.iterdir()
                       if not folder.name.endswith(("-end", ".partial")))  # fmt: skip
        again = self.job(["--shards", "2", "--from-snapshot", taken[0]], data=job.data, name="cut-again")
        again.start()
        self.assertEqual(again.wait("master"), 0, again.log("master"))
        self.assertEqual(again.weights.read_bytes(), job.weights.read_bytes())

    def test_stay_where_they_are_when_a_move_makes_no_sense(self):
        job = self.job(["--shards", "2"], rate=100, rows=4000)
        self.move(job, 0, "server-1", code=1)  # no master has run it
        job.start()
        job.wait_for_rows(10)
        for shard, to in ((2, "server-1"), (0, "server-2"), (0, "worker-0"), (0, "server-0")):
            self.move(job, shard, to, code=2 if (shard, to) != (0, "server-0") else 0)
        self.assertEqual(self.hosts(job), {"server-0": [0], "server-1": [1]})
        job.interrupt("master")
        self.move(job, 0, "server-1", code=1)


class Hosts(OnABroker):
    """Which process hosts which logical workers: four of them, of two processes."""

    SHARES = {"worker-0": [0, 2], "worker-1": [1, 3]}

    ROWS = 6000

    def begun(self, processes=2):
        """A job whose rows last longer than anything is waited for here."""
        job = self.job(["--worker-processes", str(processes)], rate=45, rows=self.ROWS)
        job.start().wait_for_log("master", "worker-1 runs" if processes else "server-0 runs")
        return job

    def end(self, job):
        """Its rows are not waited for."""
        job.kill("master")
        job.start_without_a_rate()
        self.assert_ended_well(job)
        self.assertEqual(job.summary()["rows_trained"], self.ROWS)

    @staticmethod
    def joined(job, process, worker):
        """How often the process has begun to host the worker."""
        log = job.run_dir / "logs" / f"{process}.log"
        return log.read_text(errors="replace").count(f"worker {worker}: joined; reads rows")

    def kill_and_wait_for_the_other(self, job, before_it_is_told=lambda: None):
        before = [self.joined(job, "worker-1", worker) for worker in self.SHARES["worker-0"]]
        job.kill_process("worker-0")
        before_it_is_told()
        end = time.monotonic() + topology.PATIENCE
        for worker, times in zip(self.SHARES["worker-0"], before, strict=True):
            while self.joined(job, "worker-1", worker) == times:
                if time.monotonic() > end:
                    self.fail(f"worker-1 does not host worker {worker}: {job.log('master')}")
                time.sleep(0.05)

    def by_hand(self, job, name, *flags):
        job.commands[name] = [
            topology.PROGRAMS / "WorkerApp", "--brokers", self.broker.address, "--job", job.name,
            "--workers", str(job.workers), "--data-dir", job.folder / name, *flags,
        ]  # fmt: skip
        job.start(name)

    REFUSED = "MasterApp runs the job {}, and its plan gives the logical workers to worker-"

    def test_take_over_from_one_that_is_killed_until_it_is_back(self):
        job = self.begun()
        job.wait_for_hosts(self.SHARES)
        for _ in range(3):
            self.kill_and_wait_for_the_other(job)
            job.wait_for_hosts(self.SHARES)
        self.end(job)

    def start_twin_of_worker_0(self, job):
        """A process that takes itself for the present incarnation of worker-0."""
        (number,) = [each["incarnation"] for each in job.status()["processes"]
                     if each["name"] == "worker-0"]
        self.by_hand(job, "twin", "--process", f"worker-0:{number}")
        job.wait_for_log("twin", "worker 0: joined; reads rows")

    def test_keep_what_they_host_while_there_is_no_master(self):
        job = self.begun()
        job.wait_for_hosts(self.SHARES)
        job.kill("master")
        rows = job.watched()[1]["rows_trained"] or 0
        job.wait_for_rows(rows + 80)
        self.kill_and_wait_for_the_other(job, before_it_is_told=lambda: job.start("master"))
        self.end(job)

    def test_that_are_two_of_the_same_workers_end_in_the_same_bytes(self):
        job = self.begun()
        job.wait_for_hosts(self.SHARES)
        self.start_twin_of_worker_0(job)
        job.wait_for_log("twin", "worker 2: joined; reads rows")
        self.end(job)
        self.assertEqual(job.wait("twin"), 0, job.log("twin"))

    def test_are_not_processes_that_have_been_replaced(self):
        job = self.begun()
        job.wait_for_hosts(self.SHARES)
        self.start_twin_of_worker_0(job)
        job.kill_process("worker-0")
        job.wait_for_log("twin", "another process has taken the place of worker-0")
        self.end(job)
        self.assertEqual(job.wait("twin"), 0, job.log("twin"))

    def test_are_not_processes_that_were_started_by_hand(self):
        job = self.begun()
        job.wait_for_hosts(self.SHARES)
        self.by_hand(job, "mine")
        self.assertEqual(job.wait("mine"), 1, job.log("mine"))
        self.assertIn(self.REFUSED.format(job.name), job.log("mine"))
        self.assertNotIn("joined", job.log("mine"))
        self.end(job)

    def test_are_processes_that_were_started_by_hand_until_the_master_starts_others(self):
        job = self.begun(processes=0)
        self.by_hand(job, "mine")
        job.wait_for_rows(80)
        job.kill("master")
        command = job.commands["master"]
        command[command.index("--worker-processes") + 1] = "2"
        job.start("master")
        self.assertEqual(job.wait("mine"), 1, job.log("mine"))
        self.assertIn(self.REFUSED.format(job.name), job.log("mine"))
        self.end(job)


class Masters(OnABroker):
    def test_that_are_killed_leave_their_processes_to_the_next(self):
        job = self.sleepers()
        job.start().wait_for_log("master", "worker-0 runs")
        job.wait_for_phases(["running"] * 2)
        before = job.running()
        job.kill("master")
        self.assertEqual(job.running(), before)
        # Nobody hears of a stop then; it holds no more when the next one begins.
        job.ask("stop", code=3)
        self.assertIn("no MasterApp has given a sign for", job.ask("status"))
        job.start("master")
        job.wait_for_log("master", "2 of the job's processes run already")
        job.commands["second"] = job.commands["master"]
        job.start("second")
        self.assertEqual(job.wait("master"), 4, job.log("master"))
        self.assertIn(f"another MasterApp has taken over the job {job.name}", job.log("master"))
        self.assertEqual(job.running(), before)
        # One that looks elsewhere harms neither the second nor what runs.
        elsewhere = [str(word).replace(str(job.run_dir), f"{job.run_dir}-2")
                     for word in job.commands["master"]]
        job.commands["third"] = elsewhere
        job.start("third")
        self.assertEqual(job.wait("third"), 1)
        self.assertIn("--run-dir", job.log("third"))
        self.assertEqual(job.running(), before)
        self.assertIn("job " + job.name + ": stopped", job.ask("stop"))
        self.assertEqual(job.wait("second"), 130)
        self.assertEqual(job.running(), {})

    def test_that_would_stop_what_trains_are_refused(self):
        job = self.job(rate=20, rows=400)
        job.start().wait_for_rows(60)
        for number, (flags, words) in enumerate([
            (["--server-processes", "0", "--worker-command", "true"], "runs the servers of this job"),
            (["--server-processes", "0", "--worker-processes", "0", "--master-address", "127.0.0.1:0"],
             "runs the servers of this job"),
            (["--worker-command", "true"], "runs WorkerApps in this job"),
        ]):  # fmt: skip
            with self.subTest(flags=flags):
                name = f"other-{number}"
                job.commands[name] = [MASTER, "--brokers", self.broker.address, "--job", job.name,
                                      "--run-dir", job.run_dir, *flags]  # fmt: skip
                job.start(name)
                self.assertEqual(job.wait(name), 1, job.log(name))
                self.assertIn(words, job.said(name))
        self.assert_ended_well(job)

    def test_give_a_worker_s_slot_to_a_server(self):
        job = self.sleepers("--slots", "2")
        job.start().wait_for_log("master", "worker-0 runs")
        job.wait_for_phases(["running"] * 2)
        worker = job.running()["worker-0"]
        job.kill("master")
        command = job.commands["master"]
        command[command.index("--server-processes") + 1] = "1"
        job.start("master")
        job.wait_for_phases(["running", "running", "waiting"])
        self.assertEqual(sorted(job.running()), ["server-0", "worker-0"])
        self.assertEqual(job.running()["worker-0"], worker)
        self.assertEqual(job.interrupt("master"), 130)
        self.assertEqual(job.running(), {})

    def test_stop_what_has_another_command_and_leave_the_rest_alone(self):
        job = self.sleepers("--worker-processes", "1")
        job.start().wait_for_log("master", "worker-0 runs")
        job.wait_for_phases(["running"])
        before = job.running()
        job.kill("master")
        command = job.commands["master"]
        command[command.index("--worker-processes") + 1] = "2"
        job.start("master")
        job.wait_for_phases(["running"] * 2)
        self.assertEqual(job.running()["worker-0"], before["worker-0"])
        job.kill("master")
        command[command.index("sleep 1000")] = "sleep 2000"
        job.start("master")
        job.wait_for_log("master", "worker-1 runs")
        job.wait_for_phases(["running"] * 2)
        self.assertNotEqual(job.running()["worker-0"], before["worker-0"])


class WholeJobs(OnABroker):
    """Evaluations and snapshots every so many steps, and a command at the end, whoever is killed."""

    EVERY = 30
    KEPT = 2

    def marks(self, job):
        path = job.folder / "marks"
        return path.read_text().split() if path.exists() else []

    def wait_for_mark(self, job, mark, times=1):
        end = time.monotonic() + topology.PATIENCE
        while self.marks(job).count(mark) < times:
            if time.monotonic() > end:
                raise AssertionError(f"{self.marks(job)}\n{job.log('master')}")
            time.sleep(0.05)

    def at_end(self, job, command):
        """The job runs this command at its end, in which MARKS is a file."""
        job.commands["master"] += ["--end-command", f"sh -c '{command.replace('MARKS', str(job.folder / 'marks'))}'"]

    def snapshots(self, job):
        """The ids of those that are complete, but for that of the end."""
        return sorted(int(folder.name.rsplit("-", 1)[1]) for folder in job.snapshots.glob(f"{job.name}-*")
                      if (folder / "manifest.json").exists() and not folder.name.endswith(("-end", ".partial")))  # fmt: skip

    def whole(self, **options):
        job = self.job(["--shards", "2"], rate=750, rows=12_000, **options)
        test = job.folder / "test.csv"
        topology.write_csv(test, 200)
        job.commands["master"] += [
            "--snapshot-dir", job.snapshots, "--snapshot-every", str(self.EVERY), "--snapshots-kept", str(self.KEPT),
            "--test", test, "--evaluation-every", "10", "--evaluation-log", job.folder / "evaluations.csv",
        ]  # fmt: skip
        return job

    def test_take_snapshots_of_which_the_newest_are_kept_and_run_a_command_at_the_end_whoever_is_killed(self):
        job = self.whole()
        # It lasts until the test has killed it in its middle.
        self.at_end(job, "echo begun >> MARKS; until [ -e MARKS-go ]; do sleep 0.1; done; echo done >> MARKS")
        job.start().wait_for_log("master", "worker-1 runs")
        job.wait_for_phases(["waiting", "running", "running", "running", "running", "running"])
        seen, draw = set(), random.Random(2)
        # (On a slow machine few snapshots are seen before newer ones take their place.)
        while len(seen) < 6 and not self.marks(job):
            self.assertIsNone(job.processes["master"].poll(), job.log("master"))
            victim = draw.choice(["server-0", "server-1", "worker-0", "master"])
            if victim == "master":
                job.kill("master")
                job.start("master")
            elif (running := job.running().get(victim)) and running[1]:
                job.kill_pid(running[1])
            end = time.monotonic() + draw.uniform(0.5, 2)
            while time.monotonic() < end:
                seen.update(self.snapshots(job))
                time.sleep(0.1)
        self.assertGreaterEqual(len(seen), 3, job.log("master"))
        self.wait_for_mark(job, "begun")
        self.assertTrue((job.snapshots / f"{job.name}-end" / "manifest.json").exists(), "the others have ended")
        # (The command may have begun before its phase is known.)
        job.wait_for_phases(["running"] + ["ended"] * 5)
        job.kill("master")
        job.kill_pid(job.running()["end-0"][1])
        job.start("master")
        self.wait_for_mark(job, "begun", times=2)
        (job.folder / "marks-go").touch()
        self.assert_ended_well(job)
        self.assertEqual(self.marks(job), ["begun", "begun", "done"])
        self.assert_started_once(job)
        # Those that are kept are whole, and right: a job goes on from the first one to the same bytes.
        kept = self.snapshots(job)
        self.assertEqual(len(kept), self.KEPT, kept)
        self.assertEqual(kept, sorted(seen | set(kept))[-self.KEPT:])
        clocks = [int(line.split(";")[2]) for line in
                  (job.folder / "evaluations.csv").read_text().splitlines()[1:]]  # fmt: skip
        self.assertGreater(len(clocks), 5)
        again = self.job(["--shards", "1", "--from-snapshot", job.snapshots / f"{job.name}-{kept[0]}"],
                         data=job.data, name="tour-again").start()  # fmt: skip
        self.assertEqual(again.wait("master"), 0, again.log("master"))
        self.assertEqual(again.weights.read_bytes(), job.weights.read_bytes())

    def test_have_snapshots_at_the_same_clocks_whoever_is_killed(self):
        def clocks(name, kills):
            job = self.job(rate=1500, rows=6000, name=name)
            job.commands["master"] += ["--snapshot-dir", job.snapshots, "--snapshot-every", "12"]
            job.start()
            for _ in range(kills):
                time.sleep(0.7)
                if (running := job.running().get("server-0")) and running[1]:
                    job.kill_pid(running[1])
            self.assert_ended_well(job)
            manifests = [json.loads((job.snapshots / f"{name}-{each}" / "manifest.json").read_text())
                         for each in self.snapshots(job)]  # fmt: skip
            return [{int(worker["clock"]) for worker in manifest["workers"] if not worker.get("left")}
                    for manifest in manifests]  # fmt: skip

        calm = clocks("calm-tour", 0)
        self.assertGreater(len(calm), 2)
        killed = clocks("killed-tour", 3)
        # Two rounds after each twelfth. One whose part was being written when its server was killed may be
        # missing, and one that is due before the last one is written. (And where that took long, one is cut
        # where the shard is.)
        elsewhere = [each for each in calm + killed if {clock % 12 for clock in each} != {2}]
        logs = [(self.path / name / "run" / "logs" / "server-0.log").read_text(errors="replace")
                for name in ("calm-tour", "killed-tour")]  # fmt: skip
        late = sum(log.count("too few updates came for its cut") for log in logs)
        self.assertLessEqual(len(elsewhere), late, (calm, killed))

    def test_fail_with_their_command_at_the_end_until_it_is_mended(self):
        job = self.job(rows=1000)
        self.at_end(job, "echo tried >> MARKS; exit 3")
        job.commands["master"] += ["--relaunch-on-worker-failure", "1"]
        job.start()
        self.assertEqual(job.wait("master"), 1, job.log("master"))
        self.assertIn("end-0 has failed for good, 2 times in a row: exit code 3", job.said("master"))
        self.assertEqual(self.marks(job), ["tried"] * 2)
        status = job.status()
        self.assertEqual(status["phase"], "failed")
        self.assertEqual(status["processes"][0]["last_end"]["code"], 3)
        command = job.commands["master"]
        command[command.index("--end-command") + 1] = f"touch {job.folder}/mended"
        job.start("master")
        self.assert_ended_well(job)
        self.assertTrue((job.folder / "mended").exists())

    def test_that_are_stopped_run_no_command_before_they_end(self):
        job = self.job(rate=20, rows=4000)
        self.at_end(job, "echo ended >> MARKS")
        job.start().wait_for_rows(100)
        self.assertEqual(job.interrupt("master"), 130)
        self.assertEqual(self.marks(job), [])
        job.start_without_a_rate()
        self.assert_ended_well(job)
        self.assertEqual(self.marks(job), ["ended"])

    def test_that_would_never_come_to_their_end_are_refused(self):
        for number, (flags, words) in enumerate([
            (["--end-command", "true", "--stay"], "--stay keeps them running"),
            (["--server-processes", "0", "--worker-processes", "0", "--master-address", "127.0.0.1:50001",
              "--end-command", "true"], "this job has none"),
            (["--snapshot-every", "5"], "--snapshot-every has no effect without --snapshot-dir"),
            (["--evaluation-every", "5"], "--evaluation-every has no effect without --test"),
        ]):  # fmt: skip
            with self.subTest(flags=flags):
                job = self.job(flags, name=f"refused-tour-{number}", training=[]).start()
                self.assertEqual(job.wait("master"), 2, job.log("master"))
                self.assertIn(words, job.said("master"))


class Failures(OnABroker):
    def test_of_a_command_that_is_not_there_end_the_job_with_its_reason(self):
        job = self.job(["--server-processes", "0", "--worker-command", "/no/such/program"],
                       training=[]).start()
        self.assertEqual(job.wait("master"), 1)
        self.assertIn("No such file", job.log("master"))
        self.assertIn("worker-0", job.log("master"))
        self.assertEqual(job.status()["phase"], "failed")
        # Mended, it goes on.
        command = job.commands["master"]
        command[command.index("/no/such/program")] = "true"
        job.start("master")
        self.assertEqual(job.wait("master"), 0, job.said("master"))

    def test_of_a_command_that_ends_at_once_end_the_job_with_its_last_words(self):
        job = self.job(["--server-processes", "0", "--worker-processes", "1", "--worker-command",
                        "sh -c 'echo this is broken; exit 3'", "--relaunch-on-worker-failure", "1"],
                       training=[]).start()
        self.assertEqual(job.wait("master"), 1)
        # In a second, or at once when a second has passed before MasterApp sees the end.
        self.assertIn("exit code 3; it is started again", job.log("master"))
        self.assertIn("last lines of the log of worker-0: this is broken", job.log("master"))
        end = job.log("master").split("the end of ")[1]  # of its last start
        self.assertEqual(len(re.findall("^this is broken$", end, re.M)), 1, end)
        self.assertIn("logs/worker-0.log", job.log("master"))

    def test_of_a_job_that_no_master_has_run_are_said_so(self):
        job = self.sleepers()
        for command in "status", "stop":
            with self.assertRaisesRegex(AssertionError, "exit code 1(.|\n)*no MasterApp has run"):
                job.ask(command)


if __name__ == "__main__":
    topology.main()
