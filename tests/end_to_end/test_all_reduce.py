"""Processes of examples/gloo-trainer, and WorkerApps without servers, train one model together, while one is killed,
one joins, MasterApp is killed, and all are."""

import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import test_master  # noqa: E402
import topology  # noqa: E402

TASK_TRAINER = topology.PROGRAMS.parent / "examples" / "gloo-trainer" / "gloo_task_trainer"
TRAINER = topology.PROGRAMS.parent / "examples" / "gloo-trainer" / "gloo_trainer"
PATIENCE = 120
ROUNDS = 600  # with pauses a minute: long enough for all that happens meanwhile


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
            time.sleep(0.1)

    def test_ends_in_the_same_weights_whoever_dies_or_joins(self):
        calm, _ = self.trainers("calm", pause_ms=0, node_timeout=60)
        self.assertEqual(calm.wait("master", timeout=PATIENCE), 0, calm.log("master"))
        expected = self.weights(calm, 0)
        self.assertEqual({self.weights(calm, name) for name in (1, 2)}, {expected})
        # One to train in, and one in which all say that they have done so.
        self.assertEqual(self.said(calm, "worker-0").count("world "), 2, self.said(calm, "worker-0"))

        job, command = self.trainers("disturbed", pause_ms=100, node_timeout=20)
        self.wait_until_said(job, "worker-1", r"world \d+: member \d of 3")
        time.sleep(1)  # in the middle of its rounds
        job.kill_process("worker-1")
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


class Tasks(test_master.OnABroker):
    """Processes of examples/gloo-trainer that find each other, and get their rows as tasks."""

    RECORDS = 8_000
    TASK = 64

    def trainers(self, name, pause_ms, **options):
        address = f"127.0.0.1:{topology.free_port()}"
        job = self.job(name=name, training=[], **options)
        command = (f"{TASK_TRAINER} --master {address} --least 3 --rank {{rank}} --records {self.RECORDS} "
                   f"--pause-ms {pause_ms} --state-file {job.folder}/state-{{rank}}")  # fmt: skip
        job.commands["master"] += ["--server-processes", "0", "--worker-processes", "3", "--master-address", address,
                                   "--node-timeout", "5", "--worker-command", command]  # fmt: skip
        return job.start()

    def rounds(self, job, name):
        """Of each world of the process how many members it had, and after which round it began."""
        log = job.run_dir / "logs" / f"{name}.log"
        text = log.read_text() if log.exists() else ""
        worlds = re.findall(r"world \d+: member \d of (\d), from round (\d+)", text)
        return [(int(members), int(first)) for members, first in worlds]

    def wait_for_world(self, job, name, size, after=0):
        end = time.monotonic() + PATIENCE
        while not any(members == size for members, _ in self.rounds(job, name)[after:]):
            self.assertLess(time.monotonic(), end, (self.rounds(job, name), job.log("master")))
            time.sleep(0.05)

    def times(self, job, ranks=(0, 1, 2)):
        """How often each row was trained: as all say, and as the sum says."""
        states = [(job.folder / f"state-{rank}").read_bytes() for rank in ranks]
        self.assertEqual(len(set(states)), 1, "all have the same state, to the byte")
        state = struct.unpack(f"{len(states[0]) // 4}f", states[0])
        times = state[22:]
        self.assertEqual(len(times), self.RECORDS)
        self.assertEqual(state[20], sum(count * (row % 97) for row, count in enumerate(times)))
        for weight, place in zip(state[:20], range(20), strict=True):
            self.assertLess(abs(weight - place), 1, "it has learnt")
        return times

    def test_are_trained_once_each(self):
        job = self.trainers("calm-tasks", pause_ms=0)
        self.assertEqual(job.wait("master", timeout=PATIENCE), 0, job.log("master"))
        self.assertEqual(set(self.times(job)), {1})

    def test_of_members_that_are_killed_go_to_those_who_train_on(self):
        job = self.trainers("killed-tasks", pause_ms=120)
        self.wait_for_world(job, "worker-0", 3)
        kills = 0
        for victim in "worker-1", "worker-2", "worker-1":
            time.sleep(1)  # in the middle of its rounds
            worlds = len(self.rounds(job, "worker-0"))
            self.assertIn(victim, job.running(), "too late to be of any use")
            job.kill_process(victim)
            kills += 1
            if kills == 2:
                job.kill("master")
                job.start("master")
            self.wait_for_world(job, "worker-0", 3, after=worlds)  # with its replacement
        self.assertEqual(job.wait("master", timeout=PATIENCE), 0, job.log("master"))
        times = self.times(job)
        self.assertGreaterEqual(min(times), 1, "every row is trained")
        again = sum(times) - self.RECORDS
        self.assertLessEqual(again, kills * self.TASK, "more than what the dead had is trained again")
        worlds = self.rounds(job, "worker-0")
        self.assertEqual(worlds, sorted(worlds, key=lambda world: world[1]), "no round is lost")
        sets = job.status()["task_sets"]
        self.assertEqual([(each["done"], each["dealt_out"], each["given_up"]) for each in sets],
                         [(self.RECORDS // self.TASK, 0, 0)])  # fmt: skip
        restarts = {each["name"]: each["restarts"] for each in job.status()["processes"]}
        self.assertEqual(restarts, {"worker-0": 0, "worker-1": 2, "worker-2": 1})


class OwnWorkers(test_master.OnABroker):
    def members(self, name, rows, *flags, node_timeout=6, **options):
        address = f"127.0.0.1:{topology.free_port()}"
        return self.job(["--distribution-strategy", "AllReduce", "--master-address", address, "--node-timeout",
                         str(node_timeout), *flags], name=name, rows=rows, **options)  # fmt: skip

    said = staticmethod(AllReduce.said)
    wait_until_said = AllReduce.wait_until_said

    def test_end_in_the_weights_of_a_job_with_servers(self):
        servers = self.job(name="servers", rows=3000).start()
        self.assert_ended_well(servers)
        members = self.members("members", 3000, "--snapshot-dir", self.path / "snapshots")
        members.start()
        self.assert_ended_well(members)
        self.assertEqual(members.weights.read_bytes(), servers.weights.read_bytes())
        status = members.status()
        self.assertEqual({each["name"]: each["restarts"] for each in status["processes"]},
                         {"producer-0": 0, "worker-0": 0, "worker-1": 0})  # fmt: skip
        self.assertEqual({each["state"] for each in status["nodes"]}, {"left"})
        ours, theirs = members.summary(), servers.summary()
        for figure in ("rows_trained", "rounds", "updates", "progressive"):
            self.assertEqual(ours[figure], theirs[figure], figure)
        self.assertEqual(len(list((self.path / "snapshots").glob("*/model"))), 1)
        # A WorkerApp that starts after the end writes what is missing of it.
        members.weights.unlink()
        file = sorted((members.run_dir / "config").glob("worker-*.textproto"))[-1]
        late = [topology.PROGRAMS / "WorkerApp", "--config", file, "--data-dir", members.folder / "late"]
        subprocess.run(late, check=True, timeout=PATIENCE, stderr=subprocess.DEVNULL)
        self.assertEqual(members.weights.read_bytes(), servers.weights.read_bytes())

    def test_learn_online_without_servers(self):
        job = self.members("online", 2000, training=["--update", "online"]).start()
        self.assert_ended_well(job)

    def test_end_in_the_same_bytes_whoever_dies_or_joins(self):
        job = self.members("disturbed", 4800, "--rate", "100").start()
        self.wait_until_said(job, "worker-1", r"world \d+: member \d of 2, from update \d+")
        time.sleep(2)  # in the middle of its rounds
        job.kill_process("worker-1")
        self.wait_until_said(job, "worker-0", r"is done again: (.|\n)*world \d+: member \d of \d, from update [1-9]")
        job.kill("master")
        time.sleep(1)
        job.start("master")
        files = sorted((job.run_dir / "config").glob("worker-*.textproto"))
        command = [topology.PROGRAMS / "WorkerApp", "--config", files[-1], "--data-dir", job.folder / "joins"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as newcomer:
            self.addCleanup(newcomer.kill)
            self.wait_until_said(job, "worker-0", r"world \d+: member \d of 3, from update [1-9]")
            time.sleep(2)
            newcomer.kill()
        # All at once: what none of them has any more is computed again.
        self.wait_until_said(job, "worker-0", r"member \d of 3(.|\n)*world \d+: member \d of 2, from update [1-9]")
        time.sleep(1)
        for name in ("worker-0", "worker-1"):
            job.kill_process(name)
        self.assert_ended_well(job)
        self.assertEqual(job.summary()["rows_trained"], 4800)

    def stand_still(self, job, name):
        """As a process that gets no processor, or computes without end."""
        pid = job.running()[name][1]
        os.kill(pid, signal.SIGSTOP)
        return pid

    def test_wait_for_one_who_needs_more_than_half_a_minute(self):
        job = self.members("slow", 1200, "--rate", "300", node_timeout=300).start()
        self.wait_until_said(job, "worker-1", r"world \d+: member \d of 2, from update \d+")
        time.sleep(1)
        pid = self.stand_still(job, "worker-1")
        time.sleep(33)  # longer than an exchange could take once
        os.kill(pid, signal.SIGCONT)
        self.assert_ended_well(job)
        self.assertNotIn("world is over", self.said(job, "worker-0"))

    def test_leave_one_out_who_stands_still_and_take_it_back(self):
        job = self.members("still", 4000, "--rate", "100").start()
        self.wait_until_said(job, "worker-1", r"world \d+: member \d of 2, from update \d+")
        time.sleep(1)
        pid = self.stand_still(job, "worker-1")
        self.wait_until_said(job, "worker-0", r"for dead(.|\n)*world \d+: member 0 of 1, from update [1-9]")
        os.kill(pid, signal.SIGCONT)
        job.wait_for_log("master", "worker-1 has ended: exit code 1")
        self.assertRegex(self.said(job, "worker-1"), "is dead|was replaced|takes this")
        self.wait_until_said(job, "worker-0", r"member 0 of 1(.|\n)*world \d+: member \d of 2, from update [1-9]")
        self.assert_ended_well(job)

    def test_a_stopped_job_goes_on_where_it_was(self):
        job = self.members("stopped", 1500, "--rate", "250").start()
        self.wait_until_said(job, "worker-1", r"world \d+: member \d of 2, from update \d+")
        time.sleep(2)
        job.ask("stop")
        self.assertEqual(job.wait("master"), 130, job.log("master"))
        job.start("master")
        self.wait_until_said(job, "worker-0", r"stopped(.|\n)*world \d+: member \d of \d, from update [1-9]")
        self.assert_ended_well(job)
        self.assertEqual(job.summary()["rows_trained"], 1500)


if __name__ == "__main__":
    topology.main()
