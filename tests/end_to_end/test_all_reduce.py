"""Processes of examples/gloo-trainer train one model together, while one is killed, one joins, and MasterApp is
killed."""

import pathlib
import re
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import test_master  # noqa: E402
import topology  # noqa: E402

TRAINER = topology.PROGRAMS.parent / "examples" / "gloo-trainer" / "gloo_trainer"
PATIENCE = 120
ROUNDS = 1500  # with pauses a minute: long enough for all that happens meanwhile


class AllReduce(test_master.OnABroker):
    def trainers(self, name, pause_ms, node_timeout):
        """A job of three of them, and the command of any."""
        address = f"127.0.0.1:{topology.free_port()}"
        job = self.job(name=name, training=[])
        command = (f"{TRAINER} --master {address} --least 3 --rounds {ROUNDS} --pause-ms {pause_ms} "
                   f"--weights-file {job.folder}/weights-{{rank}}")  # fmt: skip
        job.commands["master"] += ["--server-processes", "0", "--worker-processes", "3", "--master-address", address,
                                   "--node-timeout", str(node_timeout), "--worker-command", command]  # fmt: skip
        return job.start(), command

    @staticmethod
    def weights(job, name):
        return (job.folder / f"weights-{name}").read_bytes()

    @staticmethod
    def said(job, name):
        log = job.run_dir / "logs" / f"{name}.log"
        return log.read_text() if log.exists() else ""

    def wait_until_said(self, job, name, pattern):
        end = time.monotonic() + PATIENCE
        while not re.search(pattern, self.said(job, name)):
            self.assertLess(time.monotonic(), end, (pattern, self.said(job, name), job.log("master")))
            time.sleep(0.02)

    def test_ends_in_the_same_weights_whoever_dies_or_joins(self):
        calm, _ = self.trainers("calm", pause_ms=0, node_timeout=60)
        self.assertEqual(calm.wait("master", timeout=PATIENCE), 0, calm.log("master"))
        expected = self.weights(calm, 0)
        self.assertEqual({self.weights(calm, name) for name in (1, 2)}, {expected})
        # One to train in, and one in which all say that they have done so.
        self.assertEqual(self.said(calm, "worker-0").count("world "), 2, self.said(calm, "worker-0"))

        job, command = self.trainers("disturbed", pause_ms=40, node_timeout=20)
        self.wait_until_said(job, "worker-1", r"world \d+: member \d of 3")
        time.sleep(1)  # in the middle of its rounds
        job.kill_pid(job.running()["worker-1"][1])
        # The others repeat what has failed, and go on; its replacement joins them.
        self.wait_until_said(job, "worker-0", r"is repeated: (.|\n)*world \d+: member \d of 3, from round [1-9]")
        job.kill("master")
        time.sleep(1)
        job.start("master")
        words = command.format(rank="joins").split()
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as newcomer:
            self.addCleanup(newcomer.kill)
            self.wait_until_said(job, "worker-2", r"world \d+: member \d of 4, from round [1-9]")
            said = newcomer.communicate(timeout=PATIENCE)[0]
            self.assertEqual(newcomer.returncode, 0, said)
        self.assertRegex(said, r"world \d+: member \d of 4, from round [1-9]")
        self.assertEqual(job.wait("master", timeout=PATIENCE), 0, job.log("master"))
        self.assertEqual({self.weights(job, name) for name in (0, 1, 2, "joins")}, {expected})
        restarts = {each["name"]: each["restarts"] for each in job.status()["processes"]}
        self.assertEqual(restarts, {"worker-0": 0, "worker-1": 1, "worker-2": 0})


if __name__ == "__main__":
    topology.end_on_signals()
    unittest.main(verbosity=2)
