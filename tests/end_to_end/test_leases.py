"""Jobs whose rows MasterApp leases to workers, on a real broker, while everything is killed."""

import os
import pathlib
import random
import signal
import subprocess
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "scripts" / "lib")]
import topology  # noqa: E402
from test_master import MASTER, SEQUENTIAL, MasterJob  # noqa: E402

EVENTUAL = ["--consistency", "eventual", "--batch-rows", "16", "--learning-rate", "0.2"]
DYNAMIC = ["--sharding", "dynamic"]
LEASE_LOG = topology.BUILD / "tests" / "end_to_end" / "lease_log"


class LeasedJob(MasterJob):
    """Its two processes host four workers."""

    def leases(self):
        return self.status()["leases"]

    def counted(self):
        """Rows that shard 0 has counted, as the plan knows it, of each worker."""
        try:
            leases = self.leases()
        except AssertionError as error:
            if "no MasterApp has run the job" not in str(error):
                raise
            return []  # it has not come to the plan's beginning
        return [each["rows_counted"] for each in leases["workers"]] if leases else []

    def wait_for_counted(self, enough):
        end = time.monotonic() + topology.PATIENCE
        while not enough(counted := self.counted()):
            if time.monotonic() > end or self.processes["master"].poll() is not None:
                raise AssertionError(f"{counted}\n{self.log('master')}")
            time.sleep(0.3)  # (each question starts a program, which asks the broker)

    def leased_reference(self):
        """The weights of the reference loop that has the workers' rows by the log of leases."""
        leases = self.folder / "leases"
        with open(leases, "wb") as out:
            subprocess.run([LEASE_LOG, self.broker.address, self.name], check=True, stdout=out,
                           timeout=topology.PATIENCE)
        weights = self.folder / "leased.npy"
        subprocess.run([str(word) for word in (
            topology.REFERENCE_LOOP, "--workers", self.workers, *self.features, *self.training,
            "--input", self.data, *self.producer_flags, "--output", weights, "--leases", leases)],
            check=True, timeout=topology.PATIENCE)  # fmt: skip
        return weights.read_bytes()


class OnABroker(topology.OnABroker):
    def job(self, flags=(), rows=0, training=EVENTUAL, data=None, name=None, **options):
        name = name or self.id().rsplit(".", 1)[-1].replace("_", "-")[:60]
        folder = self.path / name
        folder.mkdir()
        if rows:
            data = folder / "rows.csv"
            topology.write_csv(data, rows)
        job = LeasedJob(self.broker, name, folder, flags, data=data, training=[*training, *DYNAMIC],
                        **options)  # fmt: skip
        self.addCleanup(job.close)
        return job

    def assert_each_row_counted_once(self, job, rows):
        self.assertEqual(job.wait("master"), 0, job.log("master"))
        self.assertEqual(job.running(), {})
        summary = job.summary()
        self.assertEqual(summary["rows_trained"], rows)
        status = job.status()
        self.assertEqual(status["unusable_records"], 0)
        leases = status["leases"]
        self.assertEqual((leases["rows"], leases["free_ranges"], leases["ended"]), (rows, 0, True))
        for worker in leases["workers"]:
            self.assertEqual(worker["rows_counted"], worker["rows_leased"], leases)
            self.assertEqual(worker["open"], 0, leases)
        self.assertEqual(sum(job.counted()), rows)
        return summary


class Leases(OnABroker):
    SLOW = ["--rate", "50", "--lease-rows", "16"]  # rows for minutes, of which each worker soon has some

    def test_give_all_rows_to_the_workers(self):
        job = self.job(["--shards", "2"], rows=5000).start()
        self.assert_each_row_counted_once(job, 5000)
        self.assertTrue(all(rows > 0 for rows in job.counted()), job.counted())
        self.assertIn("rows are leased to 4 workers", job.log("master"))
        # Nobody needs them any more, but for the last of each partition.
        topic = f"{job.name}.input-data"
        begins = self.broker.offsets(topic, 4, "earliest")
        self.assertTrue(all(begin > 0 for begin in begins), begins)

    def test_may_have_few_rows_or_many(self):
        # (Rows that come slowly are in records of few rows, which would be joined without the flag.)
        for lease_rows, rate in (1, ["--rate", "1500"]), (2000, []):
            with self.subTest(lease_rows):
                job = self.job(["--lease-rows", str(lease_rows), *rate], rows=1200,
                               name=f"rows-of-a-lease-{lease_rows}").start()
                self.assert_each_row_counted_once(job, 1200)
                leases = sum(each["leases"] for each in job.leases()["workers"])
                if lease_rows == 2000:  # a partition has fewer
                    self.assertIn(leases, range(4, 9))
                    continue
                ends = self.broker.offsets(f"{job.name}.input-data", 4, "latest")
                # As many as records, but for those that have no rows. Without the flag it would be some 19.
                self.assertIn(leases, range(sum(ends) - 20, sum(ends) + 1))
                self.assertGreater(leases, 80)

    def kill_all_of_it(self, job, most, must):
        """Kills programs and MasterApp at random until the job ends, or so many deaths; of these programs
        each must be among them."""
        job.wait_for_counted(lambda counted: sum(counted) > 200)
        draw = random.Random(1)
        victims = set()
        deaths = 0
        while (deaths < most or not must <= victims) and job.processes["master"].poll() is None:
            running = sorted(job.running().items())
            if running and draw.random() < 0.6:
                name, (_, command) = draw.choice(running)
                if command:
                    job.kill_pid(command)
                    victims.add(name)
            if draw.random() < 0.4:
                job.kill("master")
                time.sleep(draw.uniform(0, 0.5))
                job.start("master")
            deaths += 1
            time.sleep(draw.uniform(0, 0.8))
        self.assertLessEqual(must, victims)

    def test_count_each_row_once_whoever_is_killed(self):
        job = self.job(["--rate", "400"], rows=5000, training=SEQUENTIAL).start()
        self.kill_all_of_it(job, 25, {"server-0", "worker-0", "worker-1"})
        self.assert_each_row_counted_once(job, 5000)
        # Who was killed has changed who had which rows, and nothing else.
        self.assertEqual(job.weights.read_bytes(), job.leased_reference())

    def test_of_several_shards_count_each_row_once_whoever_is_killed(self):
        # A worker may die when one shard has its last update of a lease, and another has not.
        for name, training in ("rounds", SEQUENTIAL), ("eventual", [*EVENTUAL, "--pipeline", "4"]):
            with self.subTest(name):
                job = self.job(["--rate", "300", "--shards", "3", "--lease-rows", "16"], rows=3000,
                               training=training, name=f"shards-{name}").start()
                self.kill_all_of_it(job, 15, {"worker-0", "worker-1"})
                self.assert_each_row_counted_once(job, 3000)
                if training is SEQUENTIAL:
                    self.assertEqual(job.weights.read_bytes(), job.leased_reference())

    def test_give_a_slow_process_fewer_rows(self):
        job = self.job(["--rate", "500"], rows=5000).start()
        job.wait_for_counted(lambda counted: len(counted) == 4 and min(counted) > 0)
        slow = job.running()["worker-1"][1]
        before = job.counted()
        os.kill(slow, signal.SIGSTOP)
        try:
            job.wait_for_counted(lambda counted: sum(counted) > sum(before) + 2000)
        finally:
            os.kill(slow, signal.SIGCONT)
        self.assert_each_row_counted_once(job, 5000)
        counted = job.counted()
        hosted = [sum(counted[0::2]), sum(counted[1::2])]
        self.assertLess(hosted[1] + 1000, hosted[0], counted)

    def wait_for_new_leases(self, job):
        """Until each worker has trained rows that were leased to it after this."""
        leased = [each["rows_leased"] for each in job.leases()["workers"]]
        job.wait_for_counted(
            lambda counted: all(now > then for now, then in zip(counted, leased, strict=True)))

    def test_reach_a_process_that_takes_over_from_another(self):
        job = self.job([*self.SLOW, "--relaunch-on-worker-failure", "0"], rows=6000).start()
        job.wait_for_counted(lambda counted: len(counted) == 4 and min(counted) > 0)
        # (It is not started again: it would have its workers back before anything could be seen.)
        os.kill(job.running()["worker-0"][1], signal.SIGABRT)
        job.wait_for_hosts({"worker-1": [0, 1, 2, 3]})
        self.wait_for_new_leases(job)
        # Without a master nobody gets further rows; the next one goes on.
        job.kill("master")
        job.start_without_a_rate()
        self.assert_each_row_counted_once(job, 6000)

    def test_reach_a_process_that_is_started_again(self):
        job = self.job(self.SLOW, rows=6000).start()
        job.wait_for_counted(lambda counted: len(counted) == 4 and min(counted) > 0)
        job.kill_process("worker-0")
        job.wait_for_log("master", "worker-0 has ended")
        job.wait_for_hosts({"worker-0": [0, 2], "worker-1": [1, 3]})
        self.wait_for_new_leases(job)
        job.kill("master")
        job.start_without_a_rate()
        self.assert_each_row_counted_once(job, 6000)

    def test_leave_no_record_behind_the_last_row_unread(self):
        folder = self.path / "behind"
        folder.mkdir()
        data = folder / "all.csv"
        topology.write_csv(data, 500)
        stream = topology._Stream(data, folder / "stream.csv")
        job = self.job(["--classes", "low,middle,high"], data=stream.pipe)
        job.start("master")
        size = data.stat().st_size
        stream.feed(1 - 1.5 / size)  # all but the end of the last line
        job.wait_for_counted(lambda counted: sum(counted) >= 499)
        topic = f"{job.name}.input-data"
        for partition in range(4):
            self.broker.write(topic, [f"nobody's {partition}"], "-p", str(partition))
        stream.feed(1)
        summary = self.assert_each_row_counted_once(job, 500)
        self.assertEqual(summary["undecodable_rows"], 4)
        letters = self.broker.records(f"{job.name}.dead-letter", 4)
        for partition in range(4):
            self.assertEqual(letters.count(f"nobody's {partition}".encode()), 1, letters)


class Resizes(OnABroker):
    """From four workers to eight, and to three, while the job trains, and everything is killed.

    By the rate, rows come for minutes: on no machine are all of them leased before the last resize."""

    RATE = ["--rate", "60", "--lease-rows", "16"]

    def resize(self, job, workers):
        return subprocess.Popen(
            [MASTER, "resize", "--brokers", self.broker.address, "--job", job.name,
             "--workers", str(workers)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def kill_and_resize(self, job, workers, *victims):
        command = self.resize(job, workers)
        for victim in victims:
            if pid := job.running().get(victim, (None, None))[1]:
                job.kill_pid(pid)
            time.sleep(0.3)
        job.kill("master")
        job.start("master")
        said, errors = command.communicate(timeout=topology.PATIENCE)
        self.assertEqual(command.returncode, 0, errors + job.log("master"))
        self.assertIn(f"workers: {workers}, at most 16\n", said)
        leases = job.leases()
        states = [each["state"] for each in leases["workers"]]
        self.assertEqual(states, ["active"] * workers + ["left"] * (len(states) - workers))
        return leases

    def grow_and_shrink(self, job, rows, servers):
        job.wait_for_counted(lambda counted: sum(counted) > 300)
        self.kill_and_resize(job, 8, "worker-0", "server-0")
        job.wait_for_counted(lambda counted: len(counted) == 8 and min(counted) > 0)
        self.kill_and_resize(job, 3, "worker-1", servers[-1])
        # Those that are left go on.
        before = job.counted()
        job.wait_for_counted(
            lambda counted: all(now > then for now, then in zip(counted[:3], before, strict=False)))
        self.assertEqual(job.counted()[3:], before[3:])
        job.kill("master")
        job.start_without_a_rate()
        self.assert_each_row_counted_once(job, rows)

    def test_of_rounds_end_in_the_bytes_of_the_log_of_leases_and_resizes(self):
        job = self.job(self.RATE, rows=7200,
                       training=[*SEQUENTIAL, "--update", "gradient"]).start()
        self.grow_and_shrink(job, 7200, ["server-0"])
        self.assertEqual(job.weights.read_bytes(), job.leased_reference())

    def test_of_several_shards_count_each_row_once(self):
        for name, training in (
            ("rounds", [*SEQUENTIAL, "--update", "gradient"]),
            ("eventual", [*EVENTUAL, "--pipeline", "4"]),
        ):
            with self.subTest(name):
                job = self.job([*self.RATE, "--shards", "3"], rows=7200,
                               training=training, name=f"resized-{name}").start()
                self.grow_and_shrink(job, 7200, ["server-0", "server-1", "server-2"])
                if name == "rounds":
                    self.assertEqual(job.weights.read_bytes(), job.leased_reference())

    def test_that_cannot_be_are_refused(self):
        def refused(job, workers, code, text):
            command = self.resize(job, workers)
            _, errors = command.communicate(timeout=topology.PATIENCE)
            self.assertEqual(command.returncode, code, errors)
            self.assertIn(text, errors)

        job = self.job(["--rate", "300", "--max-workers", "6"], rows=2000).start()
        job.wait_for_counted(lambda counted: sum(counted) > 100)
        refused(job, 0, 2, "workers (--workers): give 1 to")
        refused(job, 7, 2, "may have at most 6")
        self.assert_each_row_counted_once(job, 2000)
        refused(job, 5, 1, "has ended")
        static = self.job(["--rate", "100"], rows=1000, name="static")
        at = static.commands["master"].index("--sharding")
        del static.commands["master"][at:at + 2]
        static.start()
        end = time.monotonic() + topology.PATIENCE
        while "was begun with --sharding static" not in (
                errors := self.resize(static, 5).communicate(timeout=topology.PATIENCE)[1]):
            self.assertLess(time.monotonic(), end, errors)
            time.sleep(0.2)
        self.assertEqual(static.wait("master"), 0, static.log("master"))
        self.assertEqual(static.summary()["rows_trained"], 1000)


class Refused(OnABroker):
    def run_program(self, program, *words):
        return subprocess.run(
            [topology.PROGRAMS / program, "--brokers", self.broker.address, *map(str, words)],
            check=False, capture_output=True, text=True, timeout=topology.PATIENCE, cwd=self.path)

    def assert_refused(self, done, code, *texts):
        self.assertEqual(done.returncode, code, done.stderr)
        for text in texts:
            self.assertIn(text, done.stderr)

    def test_are_servers_and_workers_without_a_master(self):
        done = self.run_program("ServerApp", "--job", "alone", *DYNAMIC)
        self.assert_refused(done, 1, "no MasterApp has run the job alone")
        job = self.job(["--rate", "300"], rows=3000).start()
        job.wait_for_counted(lambda counted: sum(counted) > 0)
        done = self.run_program("WorkerApp", "--job", job.name)
        self.assert_refused(done, 1, "Start no WorkerApp by hand")
        # Nor can it become a job without leases.
        job.kill("master")
        command = job.commands["master"]
        at = command.index("--sharding")
        changed = [*command[:at], *command[at + 2:]]
        job.commands["static"] = changed
        job.start("static")
        self.assertEqual(job.wait("static"), 1)
        self.assertIn("was begun with --sharding dynamic, which cannot be changed", job.log("static"))
        job.start_without_a_rate()
        self.assert_each_row_counted_once(job, 3000)

    def test_is_what_leases_do_not_go_together_with(self):
        for flags, texts in (
            (["--schedule", "buffer"], ["--schedule", "dynamic"]),
            (["--freeze-after", "10"], ["--freeze-after"]),
            (["--weights-from-workers"], ["--weights-from-workers"]),
            (["--worker-processes", "0"], ["--worker-processes 0 starts none"]),
            (["--worker-command", "true"], ["leave out --worker-command"]),
        ):
            with self.subTest(flags):
                done = subprocess.run(
                    [MASTER, "--brokers", "localhost:1", "--job", "refused", *DYNAMIC, *flags],
                    check=False, capture_output=True, text=True, timeout=60, cwd=self.path)
                self.assert_refused(done, 2, *texts)
        done = subprocess.run([MASTER, "--job", "refused", "--lease-rows", "5"], check=False,
                              capture_output=True, text=True, timeout=60, cwd=self.path)
        self.assert_refused(done, 2, "--lease-rows has no effect without --sharding dynamic")


if __name__ == "__main__":
    topology.main()
