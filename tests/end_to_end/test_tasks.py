"""MasterApp deals out a data set to trainers that use ElasticDL's package as it is published, while it is
killed, and they are."""

import collections
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import test_master  # noqa: E402
import topology  # noqa: E402

TRAINER = pathlib.Path(__file__).parent / "task_trainer.py"
# The client waits for 15 s before it calls again.
PATIENCE = 120


class Tasks(test_master.OnABroker):
    def trainers(self, records, epochs, seconds):
        """A job of three of them, and the folder in which each notes what it has done."""
        address = f"127.0.0.1:{topology.free_port()}"
        folder = self.path / f"{self.id().rsplit('.', 1)[-1]}-done"
        folder.mkdir()
        command = (f"env DLROVER_MASTER_ADDR={address} WORKER_ID={{rank}} {sys.executable} {TRAINER} "
                   f"{folder}/{{rank}} {records} {epochs} {seconds}")  # fmt: skip
        job = self.job(["--server-processes", "0", "--worker-processes", "3", "--master-address",
                        address, "--worker-command", command], training=[])  # fmt: skip
        return job.start(), folder

    @staticmethod
    def done(folder):
        """How often each record was trained."""
        times = collections.Counter()
        for file in folder.iterdir():
            for line in file.read_text().splitlines():
                times.update(range(*map(int, line.split())))
        return times

    def wait_for_records(self, job, folder, count):
        end = time.monotonic() + PATIENCE
        while sum(self.done(folder).values()) < count:
            self.assertLess(time.monotonic(), end, job.log("master"))
            time.sleep(0.02)

    def test_go_to_one_trainer_each_though_the_master_is_killed(self):
        job, folder = self.trainers(records=2_000, epochs=2, seconds=0.01)
        for count in 800, 2_400:
            self.wait_for_records(job, folder, count)
            job.kill("master")
            job.start("master")
        self.assertEqual(job.wait("master", timeout=PATIENCE), 0, job.log("master"))
        self.assertEqual(self.done(folder), {record: 2 for record in range(2_000)})
        self.assertEqual(len(list(folder.iterdir())), 3)

    def test_of_a_trainer_that_is_killed_go_to_others(self):
        job, folder = self.trainers(records=240, epochs=1, seconds=1)
        log = job.run_dir / "logs" / "worker-1.log"
        job.wait_for_log("master", "worker-1 runs")
        end = time.monotonic() + PATIENCE
        while "has " not in log.read_text():
            self.assertLess(time.monotonic(), end, job.log("master"))
            time.sleep(0.02)
        job.kill_pid(job.running()["worker-1"][1])  # it has a task for a second
        self.assertEqual(job.wait("master", timeout=PATIENCE), 0, job.log("master"))
        times = self.done(folder)
        self.assertEqual(sorted(times), list(range(240)))
        again = sum(times.values()) - 240
        self.assertLessEqual(again, 20, "more than the task that it had is done again")
        self.assertIn("worker-1 has ended: signal 9", job.said("master"))


if __name__ == "__main__":
    topology.end_on_signals()
    unittest.main(verbosity=2)
