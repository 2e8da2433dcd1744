"""Trainers that are not Millrace's own keep their parameters on its servers, while both are killed."""

import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import topology  # noqa: E402

DIGITS_TRAINER = topology.BUILD / "examples" / "digits-trainer" / "digits_trainer"
OWN_SERVER = topology.BUILD / "examples" / "own-server" / "own_server"
SERVERS = {"server": [0], "server1": [1]}
STEPS = 500


class OnABroker(topology.OnABroker):
    trainer = [DIGITS_TRAINER]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        subprocess.run([sys.executable, topology.ROOT / "datasets" / "digits.py", "--out", cls.path],
                       check=True, stdout=subprocess.DEVNULL)  # fmt: skip

    def job(self, name, training=("--optimizer", "momentum", "--learning-rate", "0.05"), trainer=None,
            servers=SERVERS, steps=STEPS, server=(), data=None):  # fmt: skip
        """Two trainers and some servers, of which none runs yet. server: flags of the servers."""
        job = topology.Job(self.broker, name, self.path, workers=2, servers=servers,
                           training=["--model", "external", *training])  # fmt: skip
        for name in "worker0", "worker1", "producer":
            del job.commands[name]
        for name in servers:
            job.commands[name] += server
        for number in range(2):
            job.commands[f"trainer{number}"] = [
                *(trainer or self.trainer), self.broker.address, job.name, "2", str(number), str(steps),
                data or self.path / "digits.csv"]  # fmt: skip
        self.addCleanup(job.close)
        return job

    def serve_own(self, job, program=OWN_SERVER):
        """By the handler of the example."""
        for server in job.commands:
            if server.startswith("server"):
                job.commands[server][0] = program
            else:
                job.commands[server].append("mine.clipped")
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
            self.wait_for_step(job, "trainer0", step + 50)
            self.wait_for_step(job, "trainer1", step + 50)
            step = max(self.last_step(job, trainer) for trainer in ("trainer0", "trainer1"))
            self.assertLess(step, STEPS - 50, "too late to be of any use")
            job.kill(name)
            job.start(name)
        job.wait_all()
        for trainer in "trainer0", "trainer1":
            self.assertIn("step 200: ", job.log(trainer))
            self.assertNotIn("step 0: ", job.said(trainer), "it goes on where it was killed")

    @topology.once_in_a_class
    def left_alone(self):
        """The trainers' job to which nothing happens."""
        job = self.job("calm").start()
        job.wait_all()
        return job

    def assert_has_learnt(self, job, least=3_100):
        """least: of the last 3,200 digits, how many it knows."""
        right = [int(right) for right in re.findall(r"^step \d+: (\d+) of 32$", job.log("trainer0"), re.M)]
        self.assertGreaterEqual(len(right), STEPS)
        self.assertLess(sum(right[:10]), 160, "it knows nothing at first")
        self.assertGreater(sum(right[-100:]), least, "it has learnt the digits")

    def assert_ends_in_the_same_bytes_whoever_is_killed(self):
        calm = self.left_alone()
        killed = self.job("killed").start()
        self.disturb(killed)
        self.assertEqual(killed.weights.read_bytes(), calm.weights.read_bytes())
        self.assert_has_learnt(calm)


class TrainersInCpp(OnABroker):
    def test_whose_processes_and_servers_are_killed_end_in_the_bytes_of_an_undisturbed_run(self):
        self.assert_ends_in_the_same_bytes_whoever_is_killed()

    def test_whose_answers_come_straight_end_in_the_same_bytes_whoever_is_killed(self):
        calm = self.left_alone()
        killed = self.job("straight", server=["--answers", "direct"]).start()
        self.disturb(killed)
        self.assertEqual(killed.weights.read_bytes(), calm.weights.read_bytes())
        for server in SERVERS:
            self.assertGreaterEqual(killed.log(server).count("gets its answers straight"), 3)

    def test_of_a_bounded_job_learn_whoever_is_killed(self):
        job = self.job("bounded", training=("--consistency", "bounded:20", "--learning-rate", "0.2")).start()
        self.disturb(job)
        # (What an update was computed on depends on the machine.)
        self.assert_has_learnt(job, least=2_800)

    def assert_knows_no_tree(self, folder, pattern):
        """Of files that were installed, or made from those alone."""
        found = list(folder.rglob(pattern))
        self.assertTrue(found)
        for file in found:
            self.assertNotIn(str(topology.ROOT), file.read_text(encoding="utf-8", errors="replace"), file)

    def run_command(self, *command):
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def build_elsewhere(self, example, prefix):
        """Its program, of a copy of its folder that is built as a project of its own."""
        source, build = self.path / example, self.path / f"{example}-build"
        shutil.copytree(topology.ROOT / "examples" / example, source)
        self.run_command("cmake", "-G", "Unix Makefiles", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}",
                         "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror")  # fmt: skip
        self.run_command("cmake", "--build", build)
        self.assert_knows_no_tree(build, "*.make")
        self.assert_knows_no_tree(build, "link.txt")
        return build / example.replace("-", "_")

    def test_and_servers_of_another_project_work_by_the_installed_library(self):
        prefix = self.path / "installed"
        self.run_command("cmake", "--install", topology.BUILD, "--component", "library", "--prefix", prefix)
        self.assert_knows_no_tree(prefix, "*.cmake")
        job = self.job("installed", trainer=[self.build_elsewhere("digits-trainer", prefix)])
        self.serve_own(job, self.build_elsewhere("own-server", prefix))
        job.start()
        job.wait_all()
        self.assert_has_learnt(job)


class ServersOfOnesOwn(OnABroker):
    @topology.once_in_a_class
    def own_left_alone(self):
        """The same by the servers of one's own."""
        job = self.serve_own(self.job("own-calm")).start()
        job.wait_all()
        return job

    def test_that_are_killed_end_in_the_bytes_of_an_undisturbed_run(self):
        calm = self.own_left_alone()
        killed = self.serve_own(self.job("own-killed")).start()
        self.disturb(killed)
        self.assertEqual(killed.weights.read_bytes(), calm.weights.read_bytes())
        self.assert_has_learnt(calm)
        ordinary = self.job("own-not").start()
        ordinary.wait_all()
        self.assertNotEqual(ordinary.weights.read_bytes(), calm.weights.read_bytes())
        for number, servers in enumerate(({"server": [0]}, {"server": [0, 1], "server1": [2, 3, 4]})):
            other = self.serve_own(self.job(f"own-shards{number}", servers=servers)).start()
            other.wait_all()
            self.assertEqual(other.weights.read_bytes(), calm.weights.read_bytes(), servers)

    def test_go_on_from_a_snapshot_with_more_shards(self):
        steps = 449
        rows = (self.path / "digits.csv").read_text().splitlines(keepends=True)
        few = self.path / "few-digits.csv"
        few.write_text("".join(rows[:1 + steps]))  # after so many steps the trainers begin with the first row again
        training = ("--learning-rate", "0.05")
        snapshots = self.path / "own-snapshots"
        whole = self.serve_own(self.job("own-whole", training, steps=2 * steps, data=few)).start()
        half = self.serve_own(
            self.job("own-half", (*training, "--snapshot-dir", snapshots), steps=steps, data=few)).start()
        half.wait_all()
        rest = self.job("own-rest", (*training, "--from-snapshot", snapshots / "own-half-end", "--new-stream"),
                        servers={"server": [0, 1], "server1": [2]}, steps=steps, data=few)  # fmt: skip
        self.serve_own(rest).start()
        rest.wait_all()
        whole.wait_all()
        self.assertEqual(rest.weights.read_bytes(), whole.weights.read_bytes())

    def test_run_under_a_master(self):
        calm = self.own_left_alone()
        weights = self.path / "own-mastered.npy"
        trainer = shlex.join(map(str, [DIGITS_TRAINER, self.broker.address, "own-mastered", 2, "{rank}", STEPS,
                                       self.path / "digits.csv", "mine.clipped"]))  # fmt: skip
        done = subprocess.run(
            [topology.PROGRAMS / "MasterApp", "--brokers", self.broker.address, "--job", "own-mastered", "--model",
             "external", "--workers", "2", "--shards", "2", "--optimizer", "momentum", "--learning-rate", "0.05",
             "--server-program", OWN_SERVER, "--worker-command", trainer, "--weights-file", weights, "--run-dir",
             self.path / "own-mastered"],
            check=False, capture_output=True, text=True, timeout=topology.PATIENCE)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(weights.read_bytes(), calm.weights.read_bytes())

    def test_that_have_not_the_handler_say_which_they_have_and_the_trainers_know(self):
        job = self.serve_own(self.job("own-other"), topology.PROGRAMS / "ServerApp")
        job.start("trainer0", "server")
        for name in "server", "trainer0":
            self.assertEqual(job.processes[name].wait(topology.PATIENCE), 1, job.tails())
            self.assertIn("the parameter in: this server program has no handler mine.clipped; it has sgd, ",
                          job.said(name))  # fmt: skip
        self.assertIn("a server refuses the job", job.said("trainer0"))


class AJobOfAnotherVersion(OnABroker):
    def test_is_refused_by_all_programs_which_name_both_protocols_and_the_remedy(self):
        ours = self.job("ours", steps=5).start()
        ours.wait_all()
        records = [record.split(b"<=KEY=>", 1) for record in self.broker.read("ours.job", "%k<=KEY=>%s")]
        features = next(value for key, value in records if key.startswith(b"features:5-"))
        theirs = self.job("theirs")
        theirs.commands["worker"] = [topology.PROGRAMS / "WorkerApp", "--brokers", self.broker.address, "--job",
                                     "theirs", "--workers", "2", "--data-dir", self.path / "worker"]  # fmt: skip
        theirs.start("server")
        theirs.wait_for_log("server", "waiting for its parameters")
        self.broker.write_bytes("theirs.job", "features:6-1", features, self.path / "features")
        theirs.start("trainer0", "worker")
        for name in "server", "trainer0", "worker":
            self.assertEqual(theirs.processes[name].wait(topology.PATIENCE), 1, theirs.tails())
            self.assertIn("the job theirs was begun by a program whose protocol is 6, and the protocol of this one is 5: "
                          "let all programs of the job have the same version of Millrace", theirs.said(name))  # fmt: skip
        # They have sent nothing but that the server refuses it, for trainers that wait.
        said = sorted(key.split(b":")[0] for key, _ in self.broker.keys("theirs.job"))
        self.assertEqual(said, [b"features", b"refused"])
        self.assertEqual(theirs.gradients("latest"), [0, 0])


if __name__ == "__main__":
    topology.main()
