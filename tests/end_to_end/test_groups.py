"""Groups of servers train one model together, while servers and workers of all groups are killed."""

import json
import os
import pathlib
import re
import signal
import struct
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import test_topology_file  # noqa: E402
import topology  # noqa: E402

ADDING_TRAINER = topology.BUILD / "tests" / "end_to_end" / "adding_trainer"
TRAINERS, STEPS = 3, 800
ROWS = 6000


def two_groups(servers, workers, interval):
    """workers: the groups of each. Group 1 exchanges with group 0."""
    text = ""
    for i in range(2 * servers):
        neighbor = f" neighbor: {i - servers} sync_interval: {interval}" if i >= servers else ""
        text += f'server {{ id: {i} ip: "127.0.0.1" port: {topology.free_port()}{neighbor} }}\n'
    for group in range(2):
        ids = list(range(group * servers, (group + 1) * servers))
        text += f"server_group {{ id: {group} neighbor: {ids} }}\n"
    for i, group in enumerate(workers):
        text += f"worker {{ global_id: {i} local_id: {workers[:i].count(group)} group_id: {group} }}\n"
    return text


class Groups(test_topology_file.OnABroker):
    def adding(self, *training, steps=STEPS):
        """A job of two groups of two servers; a trainer works with group 0, and two with group 1."""
        job = self.with_topology(two_groups(2, [0, 1, 1], 20), training=["--model", "external", *training],
                                 workers=TRAINERS)
        job.commands["master"] += ["--worker-command", f"{ADDING_TRAINER} {self.broker.address} {job.name} "
                                                       f"{TRAINERS} {{rank}} {steps}"]  # fmt: skip
        return job

    @staticmethod
    def step_of(job, trainer):
        log = job.run_dir / "logs" / f"worker-{trainer}.log"
        said = log.read_text(errors="replace") if log.exists() else ""
        return max(map(int, re.findall(r"^step (\d+)$", said, re.M)), default=-1)

    def wait_for_step(self, job, trainer, step):
        end = time.monotonic() + topology.PATIENCE
        while self.step_of(job, trainer) < step:
            self.assertLess(time.monotonic(), end, f"trainer {trainer} does not come to step {step}")
            time.sleep(0.02)

    def wait_for_unshared(self, job, updates):
        """Until Watch says that group 1 has so many that its neighbor does not know. (The last points come late.)"""
        end = time.monotonic() + topology.PATIENCE
        while (groups := job.watched()[1]["server_groups"])[1]["unshared_updates"] < updates:
            self.assertLess(time.monotonic(), end, groups)

    def exchanges(self, job):
        """By server: exchanges with its neighbor, and deltas taken, at its end."""
        found = []
        for i in range(4):
            said = (job.run_dir / "logs" / f"server-{i}.log").read_text(errors="replace")
            found.append(tuple(map(int, re.findall(
                r": (\d+) exchanges with the neighbor, (\d+) deltas taken", said)[-1])))  # fmt: skip
        return found

    def assert_has_every_update_once(self, job, steps=STEPS):
        self.assertEqual(job.wait("master"), 0, job.log("master"))
        values = [struct.unpack("<f", row)[0] for row in topology.read_npy(job.weights)]
        self.assertEqual(values[:TRAINERS], [10 + steps * (steps + 1) // 2] * TRAINERS)
        total = 10 + sum(step % 7 + trainer for step in range(steps) for trainer in range(TRAINERS))
        self.assertEqual(set(values[TRAINERS:]), {total})
        exchanges = self.exchanges(job)
        for shard in range(2):
            self.assertEqual(exchanges[shard], (0, exchanges[2 + shard][0]), "each delta is taken once")
            self.assertGreater(exchanges[2 + shard][0], 3)
        primary, other = job.summary()["server_groups"]
        taken, answered = (min(of_shards) for of_shards in (exchanges[0][1:] + exchanges[1][1:],
                                                            exchanges[2][:1] + exchanges[3][:1]))  # fmt: skip
        self.assertEqual((primary["deltas_taken"], primary["exchanges"]), (taken, None))
        self.assertEqual((other["exchanges"], other["unshared_updates"]), (answered, 0))

    def assert_counts_each_update_once_whoever_is_killed(self, mode):
        job = self.adding("--consistency", mode)
        job.start()
        step = 0
        # Trainer 0, which waits for no other, may be far ahead of those of the other group.
        for name in "worker-0", "server-2", "server-0", "worker-1", "server-3", "server-1":
            step += 100
            self.wait_for_step(job, 0 if name == "worker-0" else 1, step)
            job.kill_process(name)
        self.assert_has_every_update_once(job)

    def test_of_a_sequential_job_count_each_update_once_whoever_is_killed(self):
        self.assert_counts_each_update_once_whoever_is_killed("sequential")

    def test_of_an_eventual_job_count_each_update_once_whoever_is_killed(self):
        self.assert_counts_each_update_once_whoever_is_killed("eventual")

    def test_train_on_while_the_primary_is_away(self):
        job = self.adding("--consistency", "eventual")
        job.start()
        self.wait_for_step(job, 0, 50)
        self.wait_for_step(job, 1, 50)
        primary = job.running()["server-0"][1]
        os.kill(primary, signal.SIGSTOP)
        try:
            at = self.step_of(job, 0)
            self.wait_for_step(job, 1, self.step_of(job, 1) + 300)
            self.wait_for_step(job, 2, 300)
            self.assertLessEqual(self.step_of(job, 0), at + 50)
            self.wait_for_unshared(job, 300)
        finally:
            os.kill(primary, signal.SIGCONT)
        self.assert_has_every_update_once(job)

    def test_learn_from_each_row_once_whoever_is_killed(self):
        job = self.with_topology(two_groups(1, [0, 1, 1], 10), "--rate", "600", rows=ROWS, training=[], workers=3)
        log = job.folder / "evaluation.csv"
        job.commands["master"] += ["--test", job.data, "--evaluation-log", log, "--snapshot-dir", job.snapshots]
        job.start()
        for i, name in enumerate(["server-1", "server-0", "worker-2", "server-1"]):
            job.wait_for_rows((i + 1) * 800)
            job.kill_process(name)
        self.assertEqual(job.wait("master"), 0, job.log("master"))
        self.assertEqual(job.summary()["rows_trained"], ROWS)
        # The model is the primary's.
        end = job.snapshots / f"{job.name}-end"
        self.assertEqual(len(json.loads((end / "manifest.json").read_text())["parts"]), 1)
        self.assertTrue((end / "model" / "model.json").exists())
        # The file is separable but for noise: a model of a third of the rows would do nearly as well, one whose
        # changes are lost or counted twice would not.
        alone = self.job(["--shards", "1"], data=job.data, name="alone", training=[], workers=3)
        log_alone = alone.folder / "evaluation.csv"
        alone.commands["master"] += ["--test", job.data, "--evaluation-log", log_alone]
        alone.start()
        self.assertEqual(alone.wait("master"), 0, alone.log("master"))
        together, by_one = (topology.last_evaluation(each) for each in (log, log_alone))
        self.assertLess(float(together["loss"]), 1.25 * float(by_one["loss"]) + 0.05)

    def test_refuse_what_they_cannot_train_together(self):
        job = self.with_topology(two_groups(1, [0, 1], 10), "--optimizer", "ftrl", rows=100, training=[], workers=2)
        job.start()
        self.assertEqual(job.wait("master"), 2)
        self.assertIn("the weights of --optimizer ftrl follow from its own sums", job.said("master"))
        self.assertEqual(job.running(), {})


if __name__ == "__main__":
    topology.main()
