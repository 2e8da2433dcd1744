"""Trainers that are not Millrace's own keep their parameters on its servers, while both are killed."""

import pathlib
import re
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import topology  # noqa: E402

DIGITS_TRAINER = topology.BUILD / "examples" / "digits-trainer" / "digits_trainer"
SERVERS = {"server": [0], "server1": [1]}
STEPS = 1500


class OnABroker(topology.OnABroker):
    trainer = [DIGITS_TRAINER]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        subprocess.run([sys.executable, topology.ROOT / "datasets" / "digits.py", "--out", cls.path],
                       check=True, stdout=subprocess.DEVNULL)  # fmt: skip

    def job(self, name, training=("--optimizer", "momentum", "--learning-rate", "0.05"), trainer=None, server=()):
        """Two shards and two trainers, of which none runs yet. server: flags of the servers."""
        job = topology.Job(self.broker, name, self.path, workers=2, servers=SERVERS,
                           training=["--model", "external", *training])  # fmt: skip
        for name in "worker0", "worker1", "producer":
            del job.commands[name]
        for name in SERVERS:
            job.commands[name] += server
        for number in range(2):
            job.commands[f"trainer{number}"] = [
                *(trainer or self.trainer), self.broker.address, job.name, "2", str(number), str(STEPS),
                self.path / "digits.csv"]  # fmt: skip
        self.addCleanup(job.close)
        return job

    def wait_for_step(self, job, trainer, step):
        end = time.monotonic() + topology.PATIENCE
        while self.last_step(job, trainer) < step:
            job.check_that_none_crashed()
            self.assertLess(time.monotonic(), end, job.tails())
            time.sleep(0.01)

    @staticmethod
    def last_step(job, trainer):
        return max(map(int, re.findall(r"^step (\d+): .*\n", job.log(trainer), re.M)), default=-1)

    def disturb(self, job):
        """Kills each process once, and starts it again."""
        step = 0
        for name in "trainer1", "server1", "trainer0", "server":
            self.wait_for_step(job, "trainer0", step + 200)
            self.wait_for_step(job, "trainer1", step + 200)
            step = max(self.last_step(job, trainer) for trainer in ("trainer0", "trainer1"))
            self.assertLess(step, STEPS - 100, "too late to be of any use")
            job.kill(name)
            job.start(name)
        job.wait_all()
        for trainer in "trainer0", "trainer1":
            self.assertIn("step 200: ", job.log(trainer))
            self.assertNotIn("step 0: ", job.said(trainer), "it goes on where it was killed")

    def assert_has_learnt(self, job):
        right = [int(right) for right in re.findall(r"^step \d+: (\d+) of 32$", job.log("trainer0"), re.M)]
        self.assertGreaterEqual(len(right), STEPS)
        self.assertLess(sum(right[:10]), 160, "it knows nothing at first")
        self.assertGreater(sum(right[-100:]), 3_100, "it has learnt the digits")

    def assert_ends_in_the_same_bytes_whoever_is_killed(self):
        calm = self.job("calm").start()
        calm.wait_all()
        killed = self.job("killed").start()
        self.disturb(killed)
        self.assertEqual(killed.weights.read_bytes(), calm.weights.read_bytes())
        self.assert_has_learnt(calm)


class TrainersInCpp(OnABroker):
    def test_whose_processes_and_servers_are_killed_end_in_the_bytes_of_an_undisturbed_run(self):
        self.assert_ends_in_the_same_bytes_whoever_is_killed()

    def test_whose_answers_come_straight_end_in_the_same_bytes_whoever_is_killed(self):
        calm = self.job("through-kafka").start()
        calm.wait_all()
        killed = self.job("straight", server=["--answers", "direct"]).start()
        self.disturb(killed)
        self.assertEqual(killed.weights.read_bytes(), calm.weights.read_bytes())
        for server in SERVERS:
            self.assertGreaterEqual(killed.log(server).count("gets its answers straight"), 3)

    def test_of_a_bounded_job_learn_whoever_is_killed(self):
        job = self.job("bounded", training=("--consistency", "bounded:20", "--learning-rate", "0.2")).start()
        self.disturb(job)
        self.assert_has_learnt(job)

    def assert_knows_no_tree(self, folder, pattern):
        """Of files that were installed, or made from those alone."""
        found = list(folder.rglob(pattern))
        self.assertTrue(found)
        for file in found:
            self.assertNotIn(str(topology.ROOT), file.read_text(encoding="utf-8", errors="replace"), file)

    def test_of_another_project_train_by_the_installed_library(self):
        prefix, source, build = (self.path / name for name in ("installed", "project", "project-build"))
        shutil.copytree(topology.ROOT / "examples" / "digits-trainer", source)
        for command in (
            ["cmake", "--install", topology.BUILD, "--component", "library", "--prefix", prefix],
            ["cmake", "-G", "Unix Makefiles", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}",
             "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror"],
            ["cmake", "--build", build],
        ):  # fmt: skip
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assert_knows_no_tree(prefix, "*.cmake")
        self.assert_knows_no_tree(build, "*.make")
        self.assert_knows_no_tree(build, "link.txt")
        job = self.job("installed", trainer=[build / "digits_trainer"]).start()
        job.wait_all()
        self.assert_has_learnt(job)


if __name__ == "__main__":
    topology.end_on_signals()
    unittest.main(verbosity=2)
