"""MasterApp deals out a data set to trainers that use ElasticDL's package as it is published, while it is
killed, and they are."""

import collections
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import test_master  # noqa: E402
import topology  # noqa: E402

TRAINER = pathlib.Path(__file__).parent / "task_trainer.py"
WORKER = pathlib.Path(__file__).parent / "get_task_worker.py"
# The client waits for 15 s before it calls again.
PATIENCE = 120
ALONE = 5_000  # records of a job without processes


class Tasks(test_master.OnABroker):
    def trainers(self, records, epochs, seconds, *flags):
        """A job of three of them, and the folder in which each notes what it has done."""
        address = f"127.0.0.1:{topology.free_port()}"
        folder = self.path / f"{self.id().rsplit('.', 1)[-1]}-done"
        folder.mkdir()
        command = (f"env DLROVER_MASTER_ADDR={address} WORKER_ID={{rank}} {sys.executable} {TRAINER} "
                   f"{folder}/{{rank}} {records} {epochs} {seconds}")  # fmt: skip
        job = self.job(["--server-processes", "0", "--worker-processes", "3", "--master-address",
                        address, "--worker-command", command, *flags], training=[])  # fmt: skip
        return job.start(), folder

    def tasks_alone(self, *flags):
        """A job without processes, and three trainers that somebody else has started."""
        address = f"127.0.0.1:{topology.free_port()}"
        folder = self.path / f"{self.id().rsplit('.', 1)[-1]}-done"
        folder.mkdir()
        job = self.job(["--server-processes", "0", "--worker-processes", "0", "--master-address",
                        address, *flags], training=[])  # fmt: skip
        job.start().wait_for_log("master", "tasks and nodes are served at")
        trainers = []
        for rank in range(3):
            environment = {**os.environ, "DLROVER_MASTER_ADDR": address, "WORKER_ID": str(rank)}
            trainers.append(subprocess.Popen(
                [sys.executable, TRAINER, folder / str(rank), str(ALONE), "1", "0.04"],
                env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))  # fmt: skip
            self.addCleanup(trainers[-1].wait)
            self.addCleanup(trainers[-1].kill)
        return job, folder, trainers

    def kill_master_at(self, job, folder, count):
        self.wait_for_records(job, folder, count)
        self.assertLess(sum(self.done(folder).values()), ALONE, "too late to be of any use")
        job.kill("master")
        job.start("master")

    def assert_goes_on_until_it_is_stopped(self, job):
        self.assertEqual(job.status()["phase"], "active")
        self.assertEqual(job.status()["processes"], [])
        job.ask("stop")
        self.assertEqual(job.wait("master"), 130, job.log("master"))

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
            time.sleep(0.1)

    def test_go_to_one_trainer_each_though_the_master_is_killed(self):
        job, folder = self.trainers(records=1_000, epochs=2, seconds=0.02)
        for count in 400, 1_200:
            self.wait_for_records(job, folder, count)
            job.kill("master")
            job.start("master")
        self.assertEqual(job.wait("master", timeout=PATIENCE), 0, job.log("master"))
        self.assertEqual(self.done(folder), {record: 2 for record in range(1_000)})
        self.assertEqual(len(list(folder.iterdir())), 3)

    def workers(self, seconds, *flags):
        """A job of three that call get_task, with 800 records in 2 epochs."""
        address = f"127.0.0.1:{topology.free_port()}"
        folder = self.path / f"{self.id().rsplit('.', 1)[-1]}-done"
        folder.mkdir()
        command = (f"env DLROVER_MASTER_ADDR={address} WORKER_ID={{rank}} {sys.executable} {WORKER} "
                   f"{folder}/{{rank}} 800 2 {seconds}")  # fmt: skip
        job = self.job(["--server-processes", "0", "--worker-processes", "3", "--master-address", address,
                        "--worker-command", command, *flags], training=[])  # fmt: skip
        return job.start(), folder

    @staticmethod
    def lines(folder):
        """What was done: the type of the task, the number of the evaluation, and the records."""
        return [line.split() for file in folder.iterdir() for line in file.read_text().splitlines()]

    def wait_for_line(self, job, folder, kind, state="done", count=1):
        end = time.monotonic() + PATIENCE
        while sum(line[:2] == [kind, state] for line in self.lines(folder)) < count:
            self.assertLess(time.monotonic(), end, job.log("master"))
            time.sleep(0.02)

    def test_of_evaluations_and_of_the_end_are_done_once_though_the_master_is_killed(self):
        job, folder = self.workers(0.02, "--evaluation-records", "50", "--evaluation-task-records", "20",
                                   "--evaluation-every-tasks", "16", "--end-task")  # fmt: skip
        for kind in "TRAINING", "EVALUATION":
            self.wait_for_line(job, folder, kind)
            job.kill("master")
            job.start("master")
        self.assertEqual(job.wait("master", timeout=PATIENCE), 0, job.log("master"))
        done = collections.Counter((kind, int(number), int(begin), int(end))
                                   for kind, state, number, begin, end in self.lines(folder) if state == "done")  # fmt: skip
        self.assertEqual(set(done.values()), {1, 2})
        trained = {key: count for key, count in done.items() if key[0] == "TRAINING"}
        self.assertEqual(trained, {("TRAINING", 0, 20 * i, 20 * i + 20): 2 for i in range(40)})
        ranges = (0, 20), (20, 40), (40, 50)
        evaluated = {key for key in done if key[0] == "EVALUATION"}
        self.assertEqual(evaluated, {("EVALUATION", number, *each) for number in range(1, 6) for each in ranges})
        self.assertEqual([key for key in done if key[0] == "TRAIN_END_CALLBACK"], [("TRAIN_END_CALLBACK", 0, 0, 20)])
        sets = {each["name"]: (each["tasks"], each["done"]) for each in job.status()["task_sets"]}
        self.assertEqual(sets, {"numbers": (80, 80), "numbers/end": (1, 1), "numbers/evaluation": (15, 15)})

    def test_of_an_evaluation_and_of_the_end_go_to_others_when_their_trainer_is_killed(self):
        job, folder = self.workers(0.3, "--evaluation-records", "50", "--evaluation-task-records", "20",
                                   "--end-task")  # fmt: skip
        for kind in "EVALUATION", "TRAIN_END_CALLBACK":
            self.wait_for_line(job, folder, kind, "has")
            holders = [file.name for file in folder.iterdir()
                       if file.read_text().splitlines()[-1].split()[:2] == [kind, "has"]]  # fmt: skip
            self.assertTrue(holders, "too late")
            job.kill_process(f"worker-{holders[0]}")
        self.assertEqual(job.wait("master", timeout=PATIENCE), 0, job.log("master"))
        done = collections.Counter(line[0] for line in self.lines(folder) if line[1] == "done")
        self.assertGreaterEqual(done["EVALUATION"], 6)
        self.assertEqual(done["TRAIN_END_CALLBACK"], 1, "the dead one had not done it")
        sets = {each["name"]: each["done"] for each in job.status()["task_sets"]}
        self.assertEqual(sets, {"numbers": 80, "numbers/end": 1, "numbers/evaluation": 6})

    def kill_with_a_task(self, job):
        """worker-1, whose tasks take a second."""
        log = job.run_dir / "logs" / "worker-1.log"
        job.wait_for_log("master", "worker-1 runs")
        end = time.monotonic() + PATIENCE
        while "has " not in log.read_text():
            self.assertLess(time.monotonic(), end, job.log("master"))
            time.sleep(0.02)
        job.kill_process("worker-1")

    def test_of_a_trainer_that_is_killed_go_to_others(self):
        job, folder = self.trainers(records=240, epochs=1, seconds=1)
        self.kill_with_a_task(job)
        self.assertEqual(job.wait("master", timeout=PATIENCE), 0, job.log("master"))
        times = self.done(folder)
        self.assertEqual(sorted(times), list(range(240)))
        again = sum(times.values()) - 240
        self.assertLessEqual(again, 20, "more than the task that it had is done again")
        self.assertIn("worker-1 has ended: signal 9", job.said("master"))

    def test_alone_without_fault_tolerance_go_to_one_trainer_each(self):
        job, folder, trainers = self.tasks_alone("--task-fault-tolerance", "off")
        self.kill_master_at(job, folder, 1_500)
        for trainer in trainers:
            self.assertEqual(trainer.wait(PATIENCE), 0, job.log("master"))
        self.assertEqual(self.done(folder), {record: 1 for record in range(ALONE)})
        self.assertEqual(len(list(folder.iterdir())), 3)
        self.assert_goes_on_until_it_is_stopped(job)

    def test_alone_with_fault_tolerance_are_all_done_though_a_trainer_is_killed_too(self):
        # (The client says again after 15 s what a dead master did not hear.)
        job, folder, trainers = self.tasks_alone("--task-timeout", "20")
        self.wait_for_records(job, folder, 1_000)
        trainers[1].kill()
        self.kill_master_at(job, folder, 2_000)
        for trainer in trainers[0], trainers[2]:
            self.assertEqual(trainer.wait(PATIENCE), 0, job.log("master"))
        self.assertEqual(trainers[1].wait(), -signal.SIGKILL)
        times = self.done(folder)
        self.assertEqual(sorted(times), list(range(ALONE)))
        self.assertLessEqual(sum(times.values()) - ALONE, 20, "more than its task is done again")
        self.assert_goes_on_until_it_is_stopped(job)

    def test_of_a_trainer_that_is_killed_are_given_up_without_fault_tolerance(self):
        job, folder = self.trainers(240, 1, 1, "--task-fault-tolerance", "off")
        self.kill_with_a_task(job)
        self.assertEqual(job.wait("master", timeout=PATIENCE), 0, job.log("master"))
        times = self.done(folder)
        self.assertEqual(set(times.values()), {1})
        self.assertEqual(len(times), 220, "its task, and no other, is left out")
        self.assertIn("a task is given up: worker-1 has ended", job.said("master"))

    def test_and_processes_that_do_not_fit_together_are_refused_with_a_sentence(self):
        alone = ["--server-processes", "0", "--worker-processes", "0"]
        served = ["--master-address", "127.0.0.1:50001"]
        all_reduce = ["--distribution-strategy", "AllReduce"]
        for number, (flags, words) in enumerate([
            (alone, "no process is to run: give"),
            ([*alone, *served, "--worker-command", "true"], "no effect with --worker-processes 0"),
            ([*alone, *served, *all_reduce], "with --worker-processes 0 nobody trains"),
            ([*alone, *served, "--sharding", "dynamic"], "--worker-processes 0 starts none"),
            ([*alone, "--master-address", "here"], "a HOST:PORT is needed"),
            (["--task-fault-tolerance", "off"], "--task-fault-tolerance has no effect without"),
            (["--task-timeout", "9"], "--task-timeout has no effect without --master-address"),
            (["--node-timeout", "9"], "--node-timeout has no effect without --master-address"),
            ([*alone, *served, "--task-fault-tolerance", "perhaps"], "perhaps not in {on,off}"),
            (all_reduce, "give --master-address HOST:PORT"),
            ([*all_reduce, *served, "--server-processes", "1"], "leave out --server-processes"),
            ([*all_reduce, *served, "--worker-command", "true"], "--worker-command runs another"),
            (["--sharding", "dynamic", "--worker-command", "true"], "leave out --worker-command"),
            (["--end-task"], "--end-task has no effect without --master-address"),
            ([*alone, *served, "--evaluation-task-records", "9"], "no effect without --evaluation-records"),
            (["--lease-rows", "64"], "--lease-rows has no effect without --sharding dynamic"),
        ]):  # fmt: skip
            with self.subTest(flags=flags):
                job = self.job(flags, name=f"refused-{number}", training=[]).start()
                self.assertEqual(job.wait("master"), 2, job.log("master"))
                self.assertIn(words, job.said("master"))


if __name__ == "__main__":
    topology.main()
