"""The number of a job's shards changes while it trains, on a real broker, while everything is killed."""

import os
import pathlib
import random
import re
import shlex
import signal
import subprocess
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "scripts" / "lib")]
import topology  # noqa: E402
from test_master import MASTER, OnABroker  # noqa: E402


ADDING_TRAINER = topology.BUILD / "tests" / "end_to_end" / "adding_trainer"
OWN_SERVER = topology.BUILD / "examples" / "own-server" / "own_server"


class ReshardsOnABroker(OnABroker):
    def reshard(self, job, shards, code=0):
        return job.ask("reshard", "--shards", str(shards), code=code)

    def refused(self, job, *flags, code=1):
        done = subprocess.run([MASTER, *flags, "--brokers", self.broker.address, "--job", job.name],
                              check=False, capture_output=True, text=True,
                              timeout=topology.PATIENCE)  # fmt: skip
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    @staticmethod
    def shards(job):
        """All that are hosted, in their order, and the number of the layout."""
        status = job.status()
        return sorted(shard for each in status["processes"] for shard in each["shards"]), status["layout"]

    def wait_for_layout(self, job, number):
        end = time.monotonic() + 2 * topology.PATIENCE
        while job.status()["layout"] < number:
            self.assertLess(time.monotonic(), end, job.log("master"))
            self.assertIsNone(job.processes["master"].poll(), job.log("master"))
            time.sleep(0.3)

    def reshard_while_all_are_killed(self, job, draw, number, shards):
        """number: of the layout that comes. MasterApp is started again, and starts the others again."""
        # Written to `control`, whether a master is there or not.
        asking = subprocess.Popen(
            [MASTER, "reshard", "--brokers", self.broker.address, "--job", job.name, "--shards", str(shards)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        self.addCleanup(asking.wait)
        self.addCleanup(asking.kill)
        for _ in range(6):
            time.sleep(draw.uniform(0, 0.7))
            names = ["master", "server-0", "server-1", "worker-0", "worker-1"]
            for victim in draw.sample(names, draw.randint(1, 3)):
                if victim == "master":
                    job.kill("master")
                    job.start("master")
                elif victim in (running := job.running()) and running[victim][1]:
                    job.kill_pid(running[victim][1])
        if asking.wait() != 0 and job.status()["next_shards"] == 0 and self.shards(job)[1] < number:
            self.reshard(job, shards)  # it was killed before it had said it, or gave up waiting
        self.wait_for_layout(job, number)
        self.assertEqual(self.shards(job)[0], list(range(shards)))

    @staticmethod
    def let_it_end(job):
        """All that was to happen to it has happened, so the rest of its rows come at once."""
        job.kill("master")
        job.start_without_a_rate()

    def topics(self, job):
        return {name for name in self.broker.topics() if name.startswith(job.name + ".")}


class Resharding(ReshardsOnABroker):
    def test_changes_no_byte_and_no_process(self):
        job = self.job(["--shards", "2", "--rate", "100"], rows=5000).start()
        job.wait_for_rows(100)
        before = job.running()
        self.reshard(job, 5)
        self.assertEqual(self.shards(job), ([0, 1, 2, 3, 4], 1))
        self.assertIn("the job has 5 shards from now on", job.log("master"))
        trained = job.watched()[1]["rows_trained"]
        job.wait_for_rows(trained + 100)
        self.reshard(job, 5)  # it has so many
        self.assertEqual(self.shards(job)[1], 1)
        self.reshard(job, 1)
        self.assertEqual(self.shards(job), ([0], 2))
        job.wait_for_rows(job.watched()[1]["rows_trained"] + 100)
        self.assertEqual(job.running(), before)
        self.let_it_end(job)
        self.assert_ended_well(job)
        self.assertEqual(job.summary()["rows_trained"], 5000)
        self.refused(job, "reshard", "--shards", "2")  # it has ended

    def test_changes_no_byte_whoever_is_killed(self):
        job = self.job(["--shards", "2", "--rate", "100"], rows=6000).start()
        draw = random.Random(1)
        job.wait_for_rows(100)
        for number, shards in enumerate((5, 1, 3), 1):
            self.reshard_while_all_are_killed(job, draw, number, shards)
            job.wait_for_rows(job.watched()[1]["rows_trained"] + 100)
        self.assertEqual(self.shards(job)[1], 3)  # each change was carried out once
        self.let_it_end(job)
        self.assert_ended_well(job)
        self.assertEqual(job.summary()["rows_trained"], 6000)

    def test_counts_each_row_once_where_the_job_is_not_sequential(self):
        for consistency in ("eventual", "bounded:2"):
            with self.subTest(consistency):
                job = self.job(["--shards", "1", "--rate", "80"], rows=4000,
                               name="reshard-" + consistency.split(":", maxsplit=1)[0],
                               training=["--consistency", consistency, "--batch-rows", "16"])  # fmt: skip
                job.start().wait_for_rows(100)
                self.reshard(job, 3)
                job.wait_for_rows(job.watched()[1]["rows_trained"] + 100)
                self.reshard(job, 2)
                self.let_it_end(job)
                self.assertEqual(job.wait("master"), 0, job.log("master"))
                self.assertEqual(job.summary()["rows_trained"], 4000)

    def test_counts_each_leased_row_once(self):
        job = self.job(["--shards", "2", "--rate", "80", "--sharding", "dynamic"], rows=4000).start()
        job.wait_for_rows(100)
        self.reshard(job, 3)
        job.wait_for_rows(job.watched()[1]["rows_trained"] + 100)
        job.ask("resize", "--workers", "6")
        self.reshard(job, 1)
        self.let_it_end(job)
        self.assertEqual(job.wait("master"), 0, job.log("master"))
        self.assertEqual(job.summary()["rows_trained"], 4000)

    def test_of_a_job_without_rows_waits_for_them_also_when_nobody_waits_for_it(self):
        job = self.job(["--shards", "1", "--rate", "100", "--sharding", "dynamic"], rows=1000).start()
        job.wait_for_rows(100)
        producer = job.running()["producer-0"][1]
        os.kill(producer, signal.SIGSTOP)
        asking = subprocess.Popen(
            [MASTER, "reshard", "--brokers", self.broker.address, "--job", job.name, "--shards", "2"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)  # fmt: skip
        self.addCleanup(asking.kill)
        end = time.monotonic() + topology.PATIENCE
        while job.status()["next_shards"] != 2:
            self.assertLess(time.monotonic(), end, job.log("master"))
            time.sleep(0.05)
        self.assertIn("is still changing to 2 shards", self.refused(job, "resize", "--workers", "6"))
        asking.send_signal(signal.SIGINT)
        _, said = asking.communicate(timeout=topology.PATIENCE)
        self.assertEqual(asking.returncode, 130, said)
        self.assertIn("goes on", said)
        os.kill(producer, signal.SIGCONT)
        self.wait_for_layout(job, 1)
        self.assertEqual(job.wait("master"), 0, job.log("master"))
        self.assertEqual(job.summary()["rows_trained"], 1000)

    def test_goes_with_replicas_and_leaves_no_topic_behind(self):
        job = self.job(["--shards", "2", "--replicas", "1", "--replica-listen", "127.0.0.1:0",
                        "--rate", "100"], rows=4000).start()  # fmt: skip
        job.wait_for_rows(100)
        self.reshard(job, 3)
        self.reshard(job, 4)  # before the topics of layout 0 are deleted
        # Who is killed comes back to the new shards.
        job.kill_process("server-1")
        job.wait_for_log_of("server-0", "the topics of earlier layouts are deleted")  # it hosts shard 0
        self.assertFalse((job.run_dir / "server-0" / f"{job.name}-shard-0").exists())
        self.let_it_end(job)
        self.assert_ended_well(job)
        for earlier in job.name, f"{job.name}.layout-1":
            self.assertNotIn(f"{earlier}.parameters", self.topics(job))
        self.assertEqual(job.summary()["rows_trained"], 4000)

    def test_is_refused_with_a_sentence(self):
        job = self.job(["--shards", "2", "--rate", "20"], rows=4000).start()
        self.assertIn("--shards", self.refused(job, "reshard", code=2))
        self.assertIn("1 to 1000", self.refused(job, "reshard", "--shards", "0", code=2))
        job.wait_for_rows(50)
        self.assertIn("1 to 1000", self.refused(job, "reshard", "--shards", "1001", code=2))
        self.broker.tool("kafka-topics", "--create", "--topic", f"{job.name}.layout-1.parameters")
        self.assertIn("of an earlier job of this name", self.refused(job, "reshard", "--shards", "3"))
        self.assertEqual(self.shards(job), ([0, 1], 0))
        nobody = self.job(["--server-processes", "0", "--worker-command", "sleep 1000",
                           "--worker-processes", "1"], training=[], name="reshards-nobody")  # fmt: skip
        self.assertIn("no MasterApp has run", self.refused(nobody, "reshard", "--shards", "2"))
        nobody.start()
        nobody.wait_for_log("master", "worker-0 runs")
        self.assertIn("has no server processes", self.refused(nobody, "reshard", "--shards", "2"))


class TrainersOnABroker(ReshardsOnABroker):
    """Jobs of trainers of one's own, which MasterApp runs."""

    training = ["--optimizer", "momentum", "--learning-rate", "0.05"]
    steps = 500
    PAUSE = 20  # ms after each step of a job that must last while it is resharded, on a fast machine, too

    def command(self, job, pause, handler):
        """The trainer of a job: {rank} is its number."""
        return [ADDING_TRAINER, self.broker.address, job.name, 2, "{rank}", self.steps, pause, handler]

    def trainers(self, name, *flags, pause=0, handler="momentum"):
        job = self.job(["--shards", "2", *flags], name=name, workers=2,
                       training=["--model", "external", *self.training])  # fmt: skip
        job.commands["master"] += ["--worker-command", shlex.join(map(str, self.command(job, pause, handler)))]
        return job

    @topology.once_in_a_class
    def left_alone(self):
        """What a job of the class learns when nothing happens to it."""
        return self.end_of(self.trainers("left-alone").start())

    @staticmethod
    def last_step(job, trainer):
        log = job.run_dir / "logs" / f"worker-{trainer}.log"
        said = log.read_text(errors="replace") if log.exists() else ""
        return max(map(int, re.findall(r"^step (\d+)\b.*\n", said, re.M)), default=-1)

    def wait_for_steps(self, job, more):
        """Until both trainers have made so many more."""
        for trainer in range(2):
            end, step = time.monotonic() + topology.PATIENCE, self.last_step(job, trainer) + more
            self.assertLess(step, self.steps - 50, "too late to be of any use")
            while self.last_step(job, trainer) < step:
                self.assertLess(time.monotonic(), end, job.log("master"))
                self.assertIsNone(job.processes["master"].poll(), job.log("master"))
                time.sleep(0.05)

    def end_of(self, job):
        """What it has learnt: bytes."""
        self.assertEqual(job.wait("master"), 0, job.log("master"))
        self.assertEqual(job.running(), {})
        return job.weights.read_bytes()

    def assert_goes_to_three_shards_and_back_whoever_is_killed(self):
        calm = self.left_alone()
        job, draw = self.trainers("killed", pause=self.PAUSE).start(), random.Random(2)
        for number, shards in enumerate((3, 2), 1):
            self.wait_for_steps(job, 50)
            self.reshard_while_all_are_killed(job, draw, number, shards)
        self.wait_for_steps(job, 50)
        self.assertEqual(self.shards(job), ([0, 1], 2))
        self.assertEqual(self.end_of(job), calm)


class ReshardingTrainers(TrainersOnABroker):
    def test_changes_no_byte_and_no_process(self):
        calm = self.left_alone()
        job = self.trainers("goes-over", "--answers", "direct", pause=self.PAUSE).start()
        self.wait_for_steps(job, 50)
        before = job.running()
        for number, shards in enumerate((3, 2), 1):
            self.reshard(job, shards)
            self.assertEqual(self.shards(job), (list(range(shards)), number))
            self.wait_for_steps(job, 50)
        self.assertEqual(job.running(), before)
        self.assertEqual(self.end_of(job), calm)

    def test_changes_no_byte_whoever_is_killed(self):
        self.assert_goes_to_three_shards_and_back_whoever_is_killed()

    def test_takes_the_state_of_handlers_of_ones_own_along(self):
        own = {"handler": "mine.clipped"}
        calm = self.end_of(self.trainers("own-left-alone", "--server-program", OWN_SERVER, **own).start())
        job = self.trainers("own-goes-over", "--server-program", OWN_SERVER, pause=self.PAUSE, **own).start()
        self.wait_for_steps(job, 50)
        self.reshard(job, 3)
        self.wait_for_steps(job, 50)
        self.assertEqual(self.end_of(job), calm)


if __name__ == "__main__":
    topology.main()
