"""Whole topologies on a real broker: every mode, SIGKILL of everything, restarts of the broker."""

import csv
import json
import math
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import topology  # noqa: E402

ROWS = 12_001  # a short last batch, and unequal partitions
SEQUENTIAL = ["--consistency", "sequential", "--batch-rows", "16", "--learning-rate", "0.2",
              "--l2", "0.0001"]  # fmt: skip


class OnABroker(topology.OnABroker):
    rows = ROWS

    def job(self, name="", **options):
        name = self.id().rsplit(".", 1)[-1].split(" ")[0].replace("_", "-") + name
        folder = self.path / name
        folder.mkdir()
        options.setdefault("data", self.data)
        options.setdefault("training", SEQUENTIAL)
        job = topology.Job(self.broker, name, folder, **options)
        self.addCleanup(job.close)
        return job

    def disturb(self, job, victims, seed, pause=(0.3, 1.0)):
        """Kills one after the other, and starts it again. Of a job that is fed, before its last rows come."""
        draw = random.Random(seed)
        if job.stream:
            job.feed(0.9)
        for victim in victims:
            time.sleep(draw.uniform(*pause))
            if job.stream:
                self.assertIsNone(job.processes[victim].poll(), f"{victim} has ended\n{job.tails()}")
            if job.processes[victim].poll() is None:
                job.kill(victim)
                job.start(victim)
        if job.stream:
            job.feed(1)

    def assert_equals_reference(self, job):
        weights, rows = job.reference()
        self.assertEqual(job.weights.read_bytes(), weights,
                         "the weights are not those of the reference loop")
        if job.has_rows:
            self.assert_same_rows(job, rows)

    def assert_same_rows(self, job, expected):
        """The embedding rows of a job at its end are these, byte for byte, and all that its data
        name."""
        rows = job.rows()
        self.assertEqual(len(expected), topology.count_ids(job.data, job.features))
        for what, ids in {"missing": expected.keys() - rows.keys(),
                          "in nobody's data": rows.keys() - expected.keys(),
                          "different": {i for i in rows.keys() & expected.keys()
                                        if rows[i] != expected[i]}}.items():
            if ids:
                some = [(i, rows.get(i), expected.get(i)) for i in sorted(ids)[:3]]
                self.fail(f"{len(ids)} of {len(expected)} embedding rows are {what}: {some}")

    def assert_every_row_counted_once(self, job, rows=ROWS):
        summary = job.summary()
        self.assertEqual(summary["rows_trained"], rows)
        self.assertEqual(summary["progressive"]["rows"], rows)
        return summary


class Modes(OnABroker):
    def test_sequential_one_pass_equals_the_reference_loop(self):
        job = self.job().start()
        job.wait_all()
        self.assert_equals_reference(job)
        summary = self.assert_every_row_counted_once(job)
        self.assertEqual(summary["consistency"], "sequential")
        self.assertGreater(summary["progressive"]["accuracy"],
                           summary["progressive"]["prior_accuracy"] + 0.1)

    def test_learning_row_by_row_is_the_default_and_equals_the_reference_loop(self):
        training = ["--consistency", "sequential", "--batch-rows", "16"]
        job = self.job(training=training).start()
        job.wait_all()
        self.assert_equals_reference(job)
        summary = self.assert_every_row_counted_once(job)
        self.assertEqual(summary["learner"], "online")
        self.assertGreater(summary["progressive"]["accuracy"],
                           summary["progressive"]["prior_accuracy"] + 0.1)
        by_gradients = self.job("-gradients", training=[*training, "--update", "gradient"]).start()
        by_gradients.wait_all()
        self.assert_equals_reference(by_gradients)
        self.assertNotEqual(by_gradients.weights.read_bytes(), job.weights.read_bytes())

    def test_batches_that_grow_to_half_of_a_long_turn_equal_the_reference_loop(self):
        job = self.job(training=["--consistency", "sequential"],
                       producer=["--rows-per-turn", "144", "--epochs", "4"]).start()  # fmt: skip
        job.wait_all()
        self.assert_equals_reference(job)
        # Some 12,000 rows of each worker: 185 rounds of less than 64 rows, 111 of less than 72, and
        # 40 of these.
        self.assertEqual(self.assert_every_row_counted_once(job)["rounds"], 336)

    def test_rows_whose_level_moves_are_learnt_by_one_of_four_workers_as_if_it_were_alone(self):
        sorted_rows = self.path / "sorted.csv"
        with open(self.data, newline="", encoding="utf-8") as file:
            header, *rows = csv.reader(file)
        label = header.index("verdict")
        with open(sorted_rows, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([header, *sorted(rows, key=lambda row: row[label])])
        job = self.job(training=["--consistency", "sequential"], data=sorted_rows)
        command = job.commands["producer"]
        begin = command.index("--rows-per-turn")
        del command[begin:begin + 2]
        job.start()
        self.disturb(job, ["producer", "worker0", "worker1", "server"], seed=12)
        job.wait_all()
        self.assertIn("Worker 0 gets all rows", job.log("producer"))
        self.assertNotIn("warning", job.log("producer"))
        self.assert_every_row_counted_once(job)
        job.workers, job.producer_flags = 1, ["--rows-per-turn", "256"]
        self.assert_equals_reference(job)

    def test_long_turns_that_are_given_are_dealt_with_a_warning_where_the_level_moves(self):
        ordered = self.path / "ordered.csv"
        with open(ordered, "w", encoding="utf-8") as out:
            out.write("y,x\n" + "".join(f"{row // 100},{row % 7}\n" for row in range(2000)))
        job = self.job(training=["--consistency", "sequential"], data=ordered,
                       features=["--label", "y", "--regression", "--numeric", "x"],
                       producer=["--rows-per-turn", "256"]).start()  # fmt: skip
        job.wait_all()
        self.assertIn("4 workers, dealt turns of 256 rows", job.log("producer"))
        self.assert_equals_reference(job)

    def test_eventual_counts_every_row_once_and_learns(self):
        job = self.job(training=["--consistency", "eventual", "--batch-rows", "16"]).start()
        job.wait_all()
        summary = self.assert_every_row_counted_once(job)
        self.assertGreater(summary["progressive"]["accuracy"],
                           summary["progressive"]["prior_accuracy"] + 0.1)

    def test_bounded_counts_every_row_once_and_learns(self):
        job = self.job(training=["--consistency", "bounded:2", "--batch-rows", "16"]).start()
        job.wait_all()
        summary = self.assert_every_row_counted_once(job)
        self.assertLessEqual(summary["staleness_max"], 2)
        self.assertGreater(summary["progressive"]["accuracy"],
                           summary["progressive"]["prior_accuracy"] + 0.1)

    def test_rows_of_a_slow_stream_are_learnt_from_before_their_batch_is_full_whoever_is_killed(self):
        for consistency in ("eventual", "bounded:2"):
            with self.subTest(consistency):
                self.learn_from_a_slow_stream(consistency)

    def learn_from_a_slow_stream(self, consistency):
        with open(self.data, newline="", encoding="utf-8") as file:
            header, *rows = csv.reader(file)
        data = self.path / f"slow-{consistency[:7]}.csv"

        def append(some):
            with open(data, "a", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows(some)

        append([header])
        job = self.job(name=f"-{consistency[:7]}", data=data,
                       training=["--consistency", consistency, "--update", "gradient", "--batch-rows", "1000"],
                       features=[*topology.FEATURES, "--classes", "low,middle,high"],
                       producer=["--follow"], servers={"server0": [0], "server1": [1]}).start()
        victims = ["worker0", "server0", "producer", "worker1", "server1"]
        sent = 0
        for victim in victims:
            append(rows[sent:sent + 70])
            sent += 70
            job.wait_for_rows(sent)
            job.kill(victim)
            job.start(victim)
        job.wait_for_log("producer", "waiting for further lines")
        self.assertEqual(job.interrupt("producer"), 130, job.said("producer"))
        job.commands["producer"].remove("--follow")  # sends the end
        job.start("producer")
        job.wait_all()
        self.assert_every_row_counted_once(job, sent)

    def test_buffer_schedule_ends_with_the_stream(self):
        # Slowly enough for rounds between the rows also on a machine that has other things to do.
        job = self.job(training=["--schedule", "buffer", "--learning-rate", "0.2",
                                 "--rounds-after-end", "5"],
                       pace=3000, fed=True).start()  # fmt: skip
        job.feed(0.02)
        job.wait_for_readers()
        job.feed(1)
        job.wait_all()
        summary = job.summary()
        self.assertEqual(summary["schedule"], "buffer")
        self.assertGreater(summary["progressive"]["accuracy"],
                           summary["progressive"]["prior_accuracy"])

    def test_a_stream_as_fast_as_can_be_does_not_starve_the_training(self):
        header, rows = self.data.read_bytes().split(b"\r\n", 1)
        data = self.path / "many.csv"
        data.write_bytes(header + b"\r\n" + rows * 32)
        job = self.job(training=["--schedule", "buffer", "--skip-rows"], data=data, fed=True).start()
        job.feed(0.01)
        job.wait_for_readers()
        job.feed(1)
        job.wait_all()
        summary = job.summary()
        self.assertGreater(summary["rounds"], 10)
        # What was not learnt from is told.
        warned = "rows_untrained" in [warning["kind"] for warning in summary["warnings"]]
        self.assertEqual(warned, summary["rows_trained"] < 32 * ROWS - 32 * ROWS // 10)

    def test_a_buffer_learns_what_one_pass_does_and_rests_while_its_stream_does(self):
        test = self.path / "test.csv"
        topology.write_csv(test, 5000, seed=2)
        one_pass = self.job("-one-pass", training=["--test", test]).start()
        job = self.job(training=["--test", test, "--schedule", "buffer"], fed=True).start()
        job.feed(0.5)
        job.wait_for_readers()
        job.wait_until_it_stands()
        job.feed(1)
        for each in (one_pass, job):
            each.wait_all()
        summary, expected = job.summary(), one_pass.summary()
        self.assertEqual(summary["learner"], "online")
        self.assertEqual(summary["rows_trained"], ROWS)
        self.assertEqual(summary["rows_replaced"], 0)
        # (Of workers that wait for one whose rows are still to come.)
        self.assertLessEqual({warning["kind"] for warning in summary["warnings"]},
                             {"duplicates_ignored"})
        for figure in ("accuracy", "f1_weighted"):
            self.assertGreater(summary["holdout"][figure], expected["holdout"][figure] - 0.02)

    def test_a_network_learns_from_the_buffer(self):
        # (What an update has depends on what has come by then: no reference loop knows it.)
        job = self.job(training=["--model", "network", "--hidden", "12,6", "--schedule", "buffer",
                                 "--rounds-after-end", "20"],
                       pace=3000, fed=True).start()  # fmt: skip
        job.feed(0.02)
        job.wait_for_readers()
        self.disturb(job, ["worker0", "server"], seed=9)
        job.wait_all()
        summary = job.summary()
        self.assertEqual(summary["schedule"], "buffer")
        self.assertGreater(summary["rounds"], 20)
        self.assertLess(summary["progressive"]["log_loss"], summary["progressive"]["prior_log_loss"])
        self.assertGreater(summary["progressive"]["accuracy"],
                           summary["progressive"]["prior_accuracy"] + 0.1)

    def test_weight_changes_are_averaged(self):
        job = self.job(training=["--update", "weight-change", "--batch-rows", "64",
                                 "--l2", "0.001"]).start()  # fmt: skip
        job.wait_all()
        summary = self.assert_every_row_counted_once(job)
        self.assertGreater(summary["progressive"]["accuracy"],
                           summary["progressive"]["prior_accuracy"] + 0.1)

    def test_epochs_go_on_with_the_row_numbers(self):
        job = self.job(producer=["--epochs", "2"]).start()
        job.wait_all()
        self.assert_equals_reference(job)
        # Of distinct rows: in the second epoch each has been trained on.
        self.assert_every_row_counted_once(job)
        self.assertIn(f"holds {2 * ROWS:,} rows and the end", job.log("producer"))

    def test_two_hundred_workers_of_two_processes_train_whoever_is_killed(self):
        job = self.job(workers=200, training=["--consistency", "sequential", "--batch-rows", "2"],
                       fed=True).start()
        job.feed(0.5)
        job.wait_for_readers()
        self.disturb(job, ["worker0", "server"], seed=5)
        job.wait_all()
        self.assert_equals_reference(job)
        self.assert_every_row_counted_once(job)

    def test_buckets_that_are_not_given_are_many_or_those_that_the_job_began_with(self):
        features = ["--label", "verdict", "--text", "words"]
        job = self.job("-begun", features=features)
        job.commands["first"] = [*job.commands["producer"], "--text-buckets", "64", "--features-only"]
        job.start("first")
        self.assertEqual(job.wait("first"), 0, job.said("first"))
        job.start("server", "worker0", "worker1", "producer")
        job.wait_all()
        self.assertEqual(len(topology.read_npy(job.weights)), 64 + 1)
        self.assert_every_row_counted_once(job)
        job = self.job(features=features).start()
        job.wait_all()
        self.assertEqual(len(topology.read_npy(job.weights)), 262_144 + 1)
        self.assert_every_row_counted_once(job)

    def test_fewer_rows_than_workers_finish(self):
        data = self.path / "three.csv"
        topology.write_csv(data, 3)
        job = self.job(data=data, features=[*topology.FEATURES, "--classes", "low,middle,high"])
        job.start()
        job.wait_all()
        self.assert_equals_reference(job)
        self.assert_every_row_counted_once(job, 3)


class Files(OnABroker):
    """As people have them."""

    def test_one_in_another_form_whose_producer_is_killed_ends_in_the_weights_of_the_plain_form(self):
        plain, peoples = self.path / "plain.csv", self.path / "peoples.csv.gz"
        topology.write_two_forms(plain, peoples, ROWS)
        job = self.job(data=peoples, features=topology.PEOPLES_FEATURES,
                       producer=["--encoding", "latin1", "--rate", "2000"]).start()  # fmt: skip
        pause = 0.5
        while "rows already; continuing after them" not in job.log("producer"):
            time.sleep(pause)
            job.kill("producer")
            job.start("producer")
            pause *= 1.3
            self.assertLess(pause, 20, "the producer was never killed in the middle of the stream")
        job.wait_all()
        self.assertIn("10 columns separated by semicolons, as the header has most often; compressed by gzip; "
                      "in latin-1; numbers with decimal commas", job.log("producer"))  # fmt: skip
        self.assert_every_row_counted_once(job)
        job.data, job.features = plain, topology.PLAIN_FEATURES
        job.producer_flags = ["--rows-per-turn", "5"]
        self.assert_equals_reference(job)

    def test_one_that_grows_is_followed_whoever_is_killed(self):
        whole, data = self.data.read_bytes(), self.path / "grows.csv"
        draw = random.Random(9)
        ends = [*sorted(draw.randrange(len(whole)) for _ in range(60)), len(whole)]
        data.write_bytes(whole[:ends[0]])
        job = self.job(data=data, features=[*topology.FEATURES, "--classes", "low,middle,high"],
                       producer=["--follow"]).start()  # fmt: skip
        job.wait_for_log("producer", "has been read to its end; waiting for further lines")
        for number, (begin, end) in enumerate(zip(ends, ends[1:])):
            with open(data, "ab") as file:
                file.write(whole[begin:end])  # somewhere in a line, or in a word
            time.sleep(draw.uniform(0, 0.05))
            if number % 15 == 7:
                job.kill("producer")
                job.start("producer")
                job.wait_for_log("producer", "has been read to its end; waiting for further lines")
                self.assertIn("rows already; continuing after them", job.said("producer"))
        self.assertEqual(job.interrupt("producer"), 130, job.said("producer"))
        job.commands["producer"].remove("--follow")  # sends the end
        job.start("producer")
        job.wait_all()
        self.assert_every_row_counted_once(job)
        job.producer_flags.remove("--follow")
        self.assert_equals_reference(job)


class Bins(OnABroker):
    """Numbers as categories by their bins, and crosses of them."""

    features = [
        "--label", "verdict", "--numeric", "price", "--bins", "all:8,weight",
        "--categorical", "shop,shop*price,shop*day*weight", "--categorical-buckets", "1024",
    ]  # fmt: skip

    def test_they_equal_those_of_the_reference_loop_whoever_is_killed(self):
        job = self.job(features=self.features, producer=["--rate", "3000"]).start()
        job.wait_for_log("server", "classes, in the order of their columns")  # published
        self.disturb(job, ["producer", "server", "worker0", "producer"], seed=16)
        job.wait_all()
        self.assert_equals_reference(job)
        self.assert_every_row_counted_once(job)
        said = job.log("producer")
        self.assertIn('bins by the first 10,000 rows: 8 of "price", 16 of "weight"', said)
        self.assertEqual(said.count("bins by the first"), 1, "a later run has looked again")

    def test_a_later_run_and_a_pipe_have_the_edges_that_were_published(self):
        sample = self.path / "sample.csv"
        topology.write_csv(sample, 500, seed=9)
        job = self.job(features=[*self.features, "--classes", "low,middle,high"])
        producer = job.commands["producer"]
        job.commands["pipe"] = ["-" if word == self.data else word for word in producer]
        job.commands["sample"] = [*producer, "--input", sample, "--features-only"]
        job.commands["other"] = [*producer, "--bins", "weight"]
        with open(self.data, "rb") as rows:
            job.start("pipe", stdin=rows)
            self.assertEqual(job.wait("pipe"), 1)
        self.assertIn("no first scan can find the edges of --bins", job.said("pipe"))
        job.start("sample")
        self.assertEqual(job.wait("sample"), 0)
        job.start("other")
        self.assertEqual(job.wait("other"), 1)
        self.assertIn("this job was started with --bins price:8,weight:16, but --bins is weight:16", job.said("other"))
        with open(self.data, "rb") as rows:
            job.start("server", "worker0", "worker1")
            job.start("pipe", stdin=rows)
        for name in ("pipe", "server", "worker0", "worker1"):
            self.assertEqual(job.wait(name), 0)
        self.assert_every_row_counted_once(job)
        # An edge is one of the values that it was found among.
        with open(sample, newline="", encoding="utf-8") as file:
            prices = {float(row["price"]) for row in csv.DictReader(file)}
        price, weight = topology.read_npy(pathlib.Path(f"{job.weights}.bins.npy"))
        self.assertEqual([len(price), len(weight)], [15 * 8, 15 * 8])
        edges = struct.unpack("<15d", price)
        self.assertLessEqual(set(edges[:7]), prices)
        self.assertTrue(all(math.isnan(edge) for edge in edges[7:]))


    def test_a_snapshot_has_the_edges_for_another_stream(self):
        job = self.job(features=self.features)
        job.commands["server"] += ["--snapshot-dir", job.snapshots]
        job.start()
        job.wait_all()
        other = self.path / "other-stream.csv"
        topology.write_csv(other, 600, seed=2)
        folder = job.snapshots / f"{job.name}-end"
        again = self.job("-again", features=self.features, data=other)
        again.commands["server"] += ["--from-snapshot", folder, "--new-stream"]
        again.commands["producer"] += ["--bins-of", folder]
        again.start()
        again.wait_all()
        self.assertNotIn("bins by the first", again.log("producer"))
        self.assert_every_row_counted_once(again, rows=600)
        bins = [pathlib.Path(f"{each.weights}.bins.npy").read_bytes() for each in (job, again)]
        self.assertEqual(*bins)


class Crashes(OnABroker):
    def test_a_killed_server_comes_back_with_every_update(self):
        job = self.job(pace=4000, fed=True).start()
        self.disturb(job, ["server"] * 4, seed=1)
        job.wait_all()
        self.assert_equals_reference(job)
        self.assert_every_row_counted_once(job)

    def test_a_server_that_lost_its_disk_comes_back_from_the_topic(self):
        job = self.job(pace=4000, fed=True).start()
        job.feed(0.9)
        for _ in range(2):
            time.sleep(1)
            job.kill("server")
            subprocess.run(["rm", "-rf", job.folder / "server"], check=True)
            job.start("server")
        job.feed(1)
        job.wait_all()
        self.assert_equals_reference(job)
        self.assert_every_row_counted_once(job)

    def test_workers_that_learn_row_by_row_and_their_server_are_killed_and_come_back(self):
        for name, flags in {"dense": [], "wide": ["--wide-above", "0"]}.items():
            with self.subTest(name):
                job = self.job(f"-{name}", servers={"server": [0], "server1": [1, 2]},
                               training=["--consistency", "sequential", "--batch-rows", "32",
                                         *flags],
                               pace=4000, fed=True).start()  # fmt: skip
                self.disturb(job, ["worker0", "server1", "worker1", "server", "worker0"], seed=8)
                job.wait_all()
                self.assert_equals_reference(job)
                self.assert_every_row_counted_once(job)

    def test_changes_of_learners_in_16_bits_give_the_same_weights_whoever_dies(self):
        weights = []
        for victims in [], ["worker0", "server1", "worker1", "server"]:
            job = self.job("-killed" if victims else "", servers={"server": [0], "server1": [1, 2]},
                           training=["--consistency", "sequential", "--batch-rows", "32",
                                     "--compress", "bf16"],
                           pace=4000, fed=True).start()  # fmt: skip
            self.disturb(job, victims, seed=9)
            job.wait_all()
            self.assert_every_row_counted_once(job)
            weights.append(job.weights.read_bytes())
        self.assertEqual(weights[0], weights[1])
        self.assertNotEqual(weights[0], job.reference()[0])  # which knows no compression

    def test_killed_workers_are_taken_over_and_come_back(self):
        job = self.job(pace=4000, fed=True).start()
        self.disturb(job, ["worker0", "worker1", "worker0", "worker1"], seed=2)
        job.wait_all()
        self.assert_equals_reference(job)
        self.assert_every_row_counted_once(job)

    def test_a_killed_producer_goes_on_behind_its_last_row(self):
        job = self.job(producer=["--rate", "6000"]).start()
        self.disturb(job, ["producer"] * 3, seed=3, pause=(0.2, 0.6))
        job.wait_all()
        self.assert_equals_reference(job)
        self.assert_every_row_counted_once(job)

    def test_everything_killed_at_once_goes_on(self):
        job = self.job(producer=["--rate", "6000"]).start()
        for _ in range(2):
            time.sleep(1)
            alive = [name for name, process in job.processes.items() if process.poll() is None]
            for name in alive:
                job.processes[name].kill()
            for name in alive:
                job.processes[name].wait()
            job.start(*alive)
        job.wait_all()
        self.assert_equals_reference(job)
        self.assert_every_row_counted_once(job)

    def test_eventual_mode_counts_once_under_crashes(self):
        job = self.job(training=["--consistency", "eventual", "--batch-rows", "16"],
                       pace=4000, fed=True).start()  # fmt: skip
        self.disturb(job, ["server", "worker0", "server", "worker1"], seed=4)
        job.wait_all()
        self.assert_every_row_counted_once(job)

    def test_ctrl_c_stops_cleanly_and_loses_nothing(self):
        job = self.job(producer=["--rate", "6000"]).start()
        for name in ["worker0", "server", "producer", "worker1"]:
            time.sleep(0.4)
            if job.processes[name].poll() is not None:
                continue
            # (The job may have ended a moment before.)
            code = job.interrupt(name)
            ended = "has ended" in job.said(name) or "sent " in job.said(name)
            self.assertEqual(code, 0 if ended else 130, job.log(name))
            job.start(name)
        job.wait_all()
        self.assert_equals_reference(job)


class BrokerThatIsAway(OnABroker):
    needs_own_broker = True

    def test_after_a_kill_is_waited_for(self):
        job = self.job(producer=["--rate", "6000"]).start()
        time.sleep(1)
        self.broker.kill()
        time.sleep(1)
        self.broker.start()
        job.wait_all()
        self.assert_equals_reference(job)
        self.assert_every_row_counted_once(job)

    def test_after_a_stop_is_waited_for(self):
        job = self.job(producer=["--rate", "6000"]).start()
        time.sleep(1)
        self.broker.stop()
        time.sleep(1)
        self.broker.start()
        job.wait_all()
        self.assert_equals_reference(job)

    def test_is_waited_for_by_processes_that_start_before_it_in_any_order(self):
        self.broker.stop()
        job = self.job()
        for name in ["worker1", "server", "producer", "worker0"]:
            job.start(name)
        job.wait_for_log("server", "waiting for Kafka")
        self.broker.start()
        job.wait_all()
        self.assert_equals_reference(job)

    def test_is_what_watch_waits_for_and_blames_nobody_else(self):
        job = self.job(fed=True)
        job.commands["watch"] = [topology.PROGRAMS / "Watch", "--brokers", self.broker.address,
                                 "--job", job.name]  # fmt: skip
        job.start().feed(0.3)
        job.wait_for_log("watch", "waiting for rows: ")
        self.broker.stop()
        job.wait_for_log("watch", f"waiting for Kafka at {self.broker.address} (--brokers): no answer for ")
        time.sleep(6)
        self.assertNotIn("stalled", job.log("watch"))
        self.broker.start()
        job.feed(1)
        job.wait_all()
        self.assertIn("the job has ended", job.log("watch"))


class Drift(OnABroker):
    """The meaning of the columns is another one from the middle of the stream on."""

    def rows_that_change(self):
        data = self.path / "changed.csv"
        with open(self.data, newline="", encoding="utf-8") as file:
            header, *rows = csv.reader(file)
        other = {"low": "high", "high": "low", "middle": "middle"}
        for row in rows[len(rows) // 2:]:
            row[1] = other[row[1]]
        with open(data, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([header, *rows])
        return data

    def test_what_makes_steps_short_is_forgotten_at_one_clock_by_all_shards_whoever_is_killed(self):
        training = ["--consistency", "sequential", "--batch-rows", "16"]
        one, three = {"server": [0]}, {"server": [0], "server1": [1, 2]}
        data, weights = self.rows_that_change(), []
        for name, servers, victims, flags in [
                ("-one", one, [], []),
                ("-three", three, ["worker0", "server1", "worker1", "server", "worker0"], []),
                ("-wide", three, ["server", "worker1", "server1"], ["--wide-above", "0"])]:  # fmt: skip
            with self.subTest(name):
                job = self.job(name, data=data, servers=servers,
                               training=[*training, "--on-drift", "forget", *flags],
                               pace=4000, fed=True).start()  # fmt: skip
                self.disturb(job, victims, seed=10)
                job.wait_all()
                self.assert_equals_reference(job)
                summary = self.assert_every_row_counted_once(job)
                self.assertGreater(summary["drift"]["found_at"], ROWS // 2)
                weights.append(job.weights.read_bytes())
        self.assertEqual(len(set(weights)), 1, "the weights depend on the shards")
        reported = self.job("-reported", data=data, training=training)
        self.assertNotEqual(reported.reference()[0], weights[0])


class Embeddings(OnABroker):
    """A factorization machine, its rows on several shards and in more than one file's memory."""

    features = ["--label", "verdict", "--classes", "low,high", "--numeric", "price",
                "--ids", "shop,day,shop*day,id", "--text", "words", "--text-buckets", "64"]  # fmt: skip
    training = ["--model", "fm", "--factors", "4", "--consistency", "sequential", "--batch-rows", "32",
                "--learning-rate", "0.05", "--embedding-cache", "1"]  # fmt: skip
    servers = {"server": [0], "server1": [1, 2]}

    def job(self, **options):
        options.setdefault("training", self.training)
        return super().job(features=self.features, servers=self.servers, **options)

    def test_servers_and_workers_killed_in_turn_change_no_weight(self):
        job = self.job(pace=3000, fed=True).start()
        self.disturb(job, ["server1", "worker0", "server", "worker1", "server1"], seed=5)
        job.wait_all()
        self.assert_equals_reference(job)

    def test_a_killed_producer_goes_on_behind_its_last_row(self):
        job = self.job(producer=["--rate", "3000"]).start()
        self.disturb(job, ["producer"] * 2, seed=6, pause=(0.5, 1))
        job.wait_all()
        self.assert_equals_reference(job)
        summary = job.summary()
        self.assert_every_row_counted_once(job, ROWS - summary["rows_rejected"])

    def test_all_servers_killed_at_once_come_back_without_their_disks(self):
        job = self.job(pace=2000, fed=True).start()
        job.feed(0.5)
        job.wait_for_checkpoints()
        job.feed(0.9)
        job.kill_all(self.servers)
        for name in self.servers:
            shutil.rmtree(job.folder / name)
            job.start(name)
        job.feed(1)
        job.wait_all()
        self.assert_equals_reference(job)

    def test_a_server_whose_disk_is_full_says_so_and_loses_nothing(self):
        data = self.path / "many.csv"  # more than fit there
        topology.write_csv(data, 2 * ROWS)
        job = self.job(data=data, pace=4000, fed=True)
        roomy = job.commands["server1"]
        (job.folder / "server1").mkdir()
        # A disk of 800 kB that only this process sees.
        job.commands["server1"] = topology.on_a_small_disk(job.folder / "server1", "800k", roomy)
        job.start().feed(1)
        self.assertEqual(job.wait("server1"), 1)
        self.assertRegex(job.log("server1"), f"ServerApp: .*{job.folder}/server1/.*[Nn]o space left")
        self.assertIn("free space on this disk", job.log("server1"))
        self.assertIn("answers workers", job.log("server1"), "it was full from the beginning")
        job.commands["server1"] = roomy
        job.start("server1")
        job.wait_all()
        self.assert_equals_reference(job)

    def test_a_network_and_ftrl_survive_the_same(self):
        training = [*self.training, "--model", "deepfm", "--hidden", "24,16",
                    "--optimizer", "ftrl", "--l1", "0.01"]
        job = self.job(training=training, pace=3000, fed=True).start()
        job.feed(0.9)
        job.wait_for_log("server1", "answers workers")
        time.sleep(1)
        job.kill("server1")
        shutil.rmtree(job.folder / "server1")
        job.start("server1")
        self.disturb(job, ["worker0", "server", "worker1"], seed=6)
        job.wait_all()
        self.assert_equals_reference(job)

    def test_a_network_of_all_columns_survives_the_same(self):
        training = ["--model", "network", "--hidden", "12,6", "--consistency", "sequential",
                    "--batch-rows", "32", "--embedding-cache", "1"]
        job = self.job(training=training, pace=3000, fed=True).start()
        self.disturb(job, ["worker0", "server", "worker1"], seed=8)
        job.wait_all()
        self.assert_equals_reference(job)

    def test_updates_in_16_bits_give_the_same_weights_whoever_dies(self):
        weights, rows = [], []
        for victims in [], ["server1", "worker0", "server", "worker1"]:
            job = self.job(name="-killed" if victims else "",
                           training=[*self.training, "--compress", "fp16"],
                           pace=3000, fed=True).start()
            self.disturb(job, victims, seed=7)
            job.wait_all()
            weights.append(job.weights.read_bytes())
            rows.append(job.rows())
        self.assertEqual(weights[0], weights[1])
        self.assert_same_rows(job, rows[0])
        reference, reference_rows = job.reference()  # which knows no compression
        self.assertNotEqual(weights[0], reference)
        self.assertNotEqual(rows[0], reference_rows)

    def test_an_eventual_job_counts_every_row_once_and_learns(self):
        training = [*self.training, "--consistency", "eventual", "--admit-after", "2"]
        job = self.job(training=training).start()
        job.wait_all()
        summary = job.summary()
        progressive = summary["progressive"]
        self.assertEqual(progressive["rows"], summary["rows_trained"])
        self.assertLess(progressive["log_loss"], progressive["prior_log_loss"])

    def test_rows_that_have_expired_are_removed_from_parameters(self):
        job = self.job(training=[*self.training, "--expire-after", "0.5"],
                       pace=3000, fed=True)  # fmt: skip
        job.start().feed(1)
        job.wait_all()
        records = self.broker.keys(f"{job.name}.parameters")
        rows = {key for key, _ in records if key.startswith(b"e")}
        self.assertGreater(len(rows), ROWS // 2)  # an id of each row of the stream, hashed
        removed = {key for key, has_value in records if not has_value}
        self.assertGreater(len(removed & rows), ROWS // 8)
        self.assertEqual(removed - rows, set(), "nothing else is removed")

    def test_a_number_is_estimated(self):
        # Its mean is a hundred thousand, and nothing else is to be known of it.
        self.features = ["--label", "price", "--regression", "--ids", "shop,day"]
        job = self.job(training=["--model", "fm", "--factors", "0", "--batch-rows", "32",
                                 "--tail-after", "10000"]).start()  # fmt: skip
        job.wait_all()
        summary = job.summary()
        self.assertEqual(summary["progressive"]["rows"], ROWS)
        self.assertGreater(summary["tail"]["prior_rmse"], 15000)
        self.assertLess(summary["tail"]["rmse"], 1.05 * summary["tail"]["prior_rmse"])

    def test_a_number_is_learnt_row_by_row_from_columns_and_ids_whoever_dies(self):
        self.features = ["--label", "price", "--regression", "--numeric", "weight",
                         "--categorical", "verdict", "--ids", "shop,day"]  # fmt: skip
        job = self.job(training=["--consistency", "sequential", "--batch-rows", "32",
                                 "--loss", "huber", "--tail-after", "10000"],
                       producer=["--rate", "3000"]).start()  # fmt: skip
        self.disturb(job, ["worker0", "server", "worker1"], seed=8)
        job.wait_all()
        self.assert_equals_reference(job)
        summary = job.summary()
        self.assertEqual(summary["progressive"]["rows"], ROWS)
        self.assertLess(summary["tail"]["rmse"], 0.95 * summary["tail"]["prior_rmse"])
        mean, unit, least, most = struct.unpack("<4d", topology.read_npy(pathlib.Path(f"{job.weights}.target.npy"))[0])
        self.assertAlmostEqual(mean, 1e5, delta=1000)
        self.assertEqual(unit, 1)
        self.assertTrue(least < mean < most, (least, most))

    def test_a_network_estimates_a_number_by_its_gradients_whoever_dies(self):
        self.features = ["--label", "price", "--regression", "--numeric", "weight",
                         "--categorical", "verdict", "--ids", "shop,day"]  # fmt: skip
        job = self.job(training=["--model", "network", "--hidden", "12,6", "--loss", "absolute",
                                 "--consistency", "sequential", "--batch-rows", "32",
                                 "--tail-after", "10000"],
                       producer=["--rate", "3000"]).start()  # fmt: skip
        self.disturb(job, ["worker0", "server", "worker1"], seed=10)
        job.wait_all()
        self.assert_equals_reference(job)
        summary = job.summary()
        self.assertEqual(summary["progressive"]["rows"], ROWS)
        self.assertLess(summary["tail"]["rmse"], 0.95 * summary["tail"]["prior_rmse"])


class Snapshots(OnABroker):
    """Of a factorization machine on two shards; sequential, so that equal means equal bytes."""

    features, training, servers = Embeddings.features, Embeddings.training, Embeddings.servers

    @topology.once_in_a_class
    def shared_run(self):
        """A job of run_with_snapshots()."""
        return self.run_with_snapshots()

    def run_with_snapshots(self, **options):
        """A job that is asked for a snapshot in the middle; the folder of that one."""
        options.setdefault("training", self.training)
        job = self.job(features=self.features, servers=self.servers, pace=3000,
                       fed=True, **options)  # fmt: skip
        for server in self.servers:
            if not job.has_rows:
                job.commands[server] += ["--snapshot-dir", job.snapshots]
        job.commands["ask"] = [*job.commands["server"], "--checkpoint-now"]
        job.start(*[name for name in job.commands if name != "ask"]).feed(0.5)
        job.wait_for_checkpoints()
        job.start("ask")
        # It is made already, or its cut waits for more rows.
        job.wait_for_log("server", " snapshot ")
        job.feed(1)
        job.wait_all()
        taken = [folder for folder in job.snapshots.iterdir()
                 if not folder.name.endswith(("-end", ".partial"))]  # fmt: skip
        self.assertEqual(len(taken), 1)
        return job, taken[0]

    def test_a_job_goes_on_from_it_on_another_number_of_shards_to_the_same_bytes(self):
        job, folder = self.shared_run()
        self.assert_equals_reference(job)
        manifest = json.loads((folder / "manifest.json").read_text())
        clocks = {worker["clock"] for worker in manifest["workers"]}
        self.assertEqual(len(clocks), 1)
        rounds = ROWS // 4 // 32
        self.assertTrue(0 < int(clocks.pop()) < rounds, manifest["workers"])
        for servers in {"server": [0]}, {"server": [0, 1], "server1": [2, 3, 4]}:
            again = self.go_on(job, folder, servers)
            self.assert_same_rows(again, job.rows())

    def go_on(self, job, folder, servers):
        """From the job's snapshot to the same weights."""
        again = self.job(name=f"-again{len(servers)}", features=self.features,
                         training=self.training, servers=servers)
        for server in servers:
            again.commands[server] += ["--from-snapshot", folder]
        again.start()
        again.wait_all()
        self.assertIn("starts from snapshot", again.log("server"))
        self.assertEqual(again.weights.read_bytes(), job.weights.read_bytes())
        return again

    def test_a_job_that_learns_row_by_row_goes_on_from_it_to_the_same_bytes(self):
        self.features = [*topology.FEATURES, "--classes", "low,middle,high"]
        self.training = ["--consistency", "sequential", "--batch-rows", "32", "--wide-above", "0"]
        self.data = self.path / "fewer.csv"  # (a round of such a job takes many records)
        topology.write_csv(self.data, ROWS // 2)
        job, folder = self.run_with_snapshots()
        self.assert_equals_reference(job)
        self.go_on(job, folder, {"server": [0, 1], "server1": [2]})
        # The file has what predicts, the snapshot what the job goes on with.
        loaded = self.numpy(topology.ROOT / "docs" / "load_snapshot.py", folder, job.weights)
        self.assertIn("embedding rows of 24 floats", loaded)
        self.assertIn("is not compared", loaded)

    def test_who_asks_while_another_is_on_its_way_hears_that_at_once(self):
        snapshots = self.path / "refused-snapshots"
        job = self.job(features=self.features, training=self.training, servers=self.servers,
                       pace=3000, fed=True)  # fmt: skip
        for server in self.servers:
            job.commands[server] += ["--snapshot-dir", snapshots]
        for name in "ask", "ask-again":
            job.commands[name] = [*job.commands["server"], "--checkpoint-now"]
        job.start(*[name for name in job.commands if not name.startswith("ask")]).feed(0.5)
        job.wait_for_checkpoints()
        job.wait_until_it_stands()
        # The cut of the one that comes first waits some seconds for rows.
        names = ["ask", "ask-again"]
        for name in names:  # (who asks within the same millisecond asks for the same one)
            job.start(name).wait_for_log(name, "requested snapshot")
        codes = [job.wait(name) for name in names]
        self.assertEqual(sorted(codes), [0, 1], [job.log(name) for name in names])
        refused = names[codes.index(1)]
        self.assertIn("the servers cancelled the snapshot", job.log(refused))
        del job.processes[refused]
        job.feed(1)
        job.wait_all()
        self.assertRegex(job.log("server"), r"snapshot \d+ requested")

    def test_a_job_that_has_begun_needs_its_snapshot_no_more(self):
        job, taken = self.shared_run()
        folder = shutil.copytree(taken, self.path / "taken-and-removed")
        again = self.job(name="-again", features=self.features, training=self.training,
                         servers=self.servers, pace=3000, fed=True)  # fmt: skip
        without = again.commands["server1"]
        again.commands["server"] += ["--from-snapshot", folder]
        again.start("producer", "server").feed(0.9)
        again.wait_for_log("server", "starts from snapshot")
        again.start("server1")
        self.assertEqual(again.wait("server1"), 1)
        self.assertIn("give its folder with --from-snapshot", again.log("server1"))
        again.commands["server1"] = [*without, "--from-snapshot", folder]
        again.start("server1", "worker0", "worker1")
        again.wait_for_checkpoints()
        again.kill_all(self.servers)
        shutil.rmtree(folder)
        shutil.rmtree(again.folder / "server1")
        again.start("server")
        again.commands["server1"] = without
        again.start("server1")
        again.feed(1)
        again.wait_all()
        self.assertIn("is not needed: the job started from", again.said("server"))
        self.assertEqual(again.weights.read_bytes(), job.weights.read_bytes())

    def test_a_new_stream_begins_with_what_was_learnt_from_another(self):
        _, folder = self.shared_run()
        other = self.path / "other.csv"
        topology.write_csv(other, 600, seed=2)
        ends = {}
        for name, flags in {"cold": [], "warm": ["--from-snapshot", folder, "--new-stream"]}.items():
            again = self.job(name=f"-{name}", features=self.features, training=self.training,
                             data=other, workers=2)  # fmt: skip
            again.commands["server"] += flags
            again.start()
            again.wait_all()
            ends[name] = again.summary()
        self.assertGreater(ends["cold"]["rows_trained"], 200)
        self.assertEqual(ends["warm"]["rows_trained"], ends["cold"]["rows_trained"])
        self.assertGreater(ends["warm"]["progressive"]["accuracy"],
                           ends["cold"]["progressive"]["accuracy"] + 0.02, ends)

    def test_the_model_of_a_job_has_the_figures_of_its_last_evaluation(self):
        data, more, held_out = (self.path / name for name in ("some.csv", "more.csv", "held-out.csv"))
        topology.write_csv(data, 3000)
        topology.write_csv(more, 6000)  # a number is harder to estimate
        topology.write_csv(held_out, 1000, seed=2)
        ids = [*topology.FEATURES, "--ids", "shop,words", "--classes", "low,high"]
        number = ["--label", "price", "--regression", "--numeric", "weight", "--categorical", "shop"]
        for name, features, training in [
            ("-online", topology.FEATURES, []),
            ("-online-number", [*number, "--ids", "words"], []),
            ("-gradients", topology.FEATURES, ["--update", "gradient"]),
            ("-wide", topology.FEATURES, ["--update", "gradient", "--wide-above", "0", "--l2", "0.001"]),
            ("-number", number, ["--update", "gradient"]),
            ("-network", topology.FEATURES, ["--model", "network", "--wide-above", "0"]),
            ("-fm", [*number, "--ids", "shop,words"], ["--model", "fm"]),
            ("-fm-classes", ids, ["--model", "fm"]),
            ("-deepfm", ids, ["--model", "deepfm", "--admit-after", "2", "--l2", "0.001"]),
            ("-deepfm-number", [*number, "--ids", "words"], ["--model", "deepfm"]),
            ("-network-ids", ids, ["--model", "network"]),
            ("-network-number", number, ["--model", "network"]),
            ("-buffer", topology.FEATURES, ["--schedule", "buffer", "--buffer-min", "256"]),
        ]:
            job = self.job(name=name, features=features, data=more if "--regression" in features else data,
                           servers=self.servers, training=["--batch-rows", "32", *training])  # fmt: skip
            log = job.folder / "evaluation.csv"
            job.commands["server"] += ["--test", held_out, "--evaluation-log", log]
            for server in self.servers:
                if not job.has_rows:
                    job.commands[server] += ["--snapshot-dir", job.snapshots]
            job.start().wait_all()
            expected = topology.last_evaluation(log)
            model = job.snapshots / f"{job.name}-end" / "model"
            found = topology.figures_of_model(model, held_out)
            self.assertIn("loss" if "verdict" in features else "mae", found)
            self.assertEqual(found, {key: expected[key] for key in found}, name)
            self.assertEqual((model / "model.onnx").exists(), not job.has_rows, name)
            # Predictor says the same of the file, to the last digit.
            figures = job.folder / "figures.json"
            subprocess.run([topology.PROGRAMS / "Predictor", "--model", model, "--input", held_out,
                            "--output", job.folder / "scored.csv", "--figures", figures],
                           check=True, timeout=topology.PATIENCE, capture_output=True)
            predicted, held = json.loads(figures.read_text()), job.summary()["holdout"]
            self.assertIsNone(predicted.pop("worse_than_prior"), name)
            self.assertEqual(predicted, held, name)

    def test_export_writes_the_model_of_a_job_that_runs_or_of_a_snapshot(self):
        training = ["--consistency", "sequential", "--batch-rows", "32"]
        servers = {"server": [0], "server1": [1], "server2": [2]}
        job = self.job(features=topology.FEATURES, training=training, servers=servers,
                       pace=3000, fed=True)  # fmt: skip
        for server in servers:
            job.commands[server] += ["--snapshot-dir", job.snapshots]
        taken = job.folder / "taken"
        job.commands["export"] = [*job.commands["server"], "--export", taken]
        self.export_while_it_runs(job)
        in_between = json.loads((taken / "model.json").read_text())
        self.assertTrue(0 < int(in_between["rows"]) < ROWS, in_between["rows"])
        self.assertEqual(in_between["features"]["classes"], ["low", "middle", "high"])
        # The same bytes as beside the snapshot, whoever writes them.
        end = job.snapshots / f"{job.name}-end"
        again = job.folder / "again"
        self.assertEqual(self.export(job, f"{again}/", "--from-snapshot", end), 0)
        for file in sorted((end / "model").iterdir()):
            self.assertEqual((again / file.name).read_bytes(), file.read_bytes(), file.name)
        # So does the same command that the running job was asked by.
        late = job.folder / "late"
        self.assertEqual(self.export(job, late, "--snapshot-dir", job.snapshots), 0)
        self.assertEqual((late / "model.json").read_bytes(), (again / "model.json").read_bytes())
        # Other folders are not replaced, and what cannot be had is said at once.
        for code, why, words in [
            (1, "is not there: start each of its servers again", [late, "--snapshot-dir", late]),
            (1, "is no model", [end, "--from-snapshot", end]),
            (2, "give the name of a folder", [""]),
            (2, "does not exist", [again, "--data-dir", job.folder / "nobody"]),
        ]:
            self.assertEqual(self.export(job, *words), code, words)
            self.assertIn(why, job.said("export"))

    def export(self, job, folder, *words):
        """The exit code."""
        job.commands["export"] = [topology.PROGRAMS / "ServerApp", "--brokers", self.broker.address,
                                  "--job", job.name, "--export", folder, *words]  # fmt: skip
        job.start("export")
        code = job.wait("export")
        del job.processes["export"]
        return code

    def export_while_it_runs(self, job):
        job.start(*[name for name in job.commands if name != "export"]).feed(0.5)
        job.wait_for_checkpoints()
        job.start("export")
        job.wait_for_log("server", " snapshot ")
        job.feed(1)
        job.wait_all()

    def test_export_of_a_job_without_new_rows_is_the_model_of_now_as_often_as_it_is_asked(self):
        servers = {"server": [0, 2], "server1": [1]}
        for consistency in "sequential", "bounded:2", "eventual":
            with self.subTest(consistency):
                job = self.job(name=f"-{consistency[:7]}", features=topology.FEATURES, servers=servers,
                               training=["--consistency", consistency, "--batch-rows", "32"],
                               pace=3000, fed=True)  # fmt: skip
                for server in servers:
                    job.commands[server] += ["--snapshot-dir", job.snapshots]
                job.start().feed(0.5)
                job.wait_for_checkpoints()
                job.wait_until_it_stands()
                rows = []
                for victim in "worker0", "server":
                    taken = job.folder / f"taken-{victim}"
                    self.assertEqual(self.export(job, taken, "--snapshot-dir", job.snapshots), 0,
                                     job.log("export"))  # fmt: skip
                    rows.append(int(json.loads((taken / "model.json").read_text())["rows"]))
                    job.kill(victim)  # nobody is needed who has sent updates
                job.start("worker0", "server").feed(1)
                job.wait_all()
                self.assertEqual(rows[0], rows[1])
                self.assertTrue(0 < rows[0] < ROWS, rows)
                self.assert_every_row_counted_once(job)
                if consistency == "sequential":
                    self.assert_equals_reference(job)

    def test_a_single_server_without_a_place_for_snapshots_gives_its_model_away_too(self):
        held_out = self.path / "other.csv"
        topology.write_csv(held_out, 1000, seed=3)
        job = self.job(features=topology.FEATURES, training=["--batch-rows", "32"],
                       pace=3000, fed=True)  # fmt: skip
        log = job.folder / "evaluation.csv"
        job.commands["server"] += ["--test", held_out, "--evaluation-log", log]
        taken = job.folder / "taken"
        job.commands["export"] = [topology.PROGRAMS / "ServerApp", "--brokers", self.broker.address,
                                  "--job", job.name, "--data-dir", job.folder / "server",
                                  "--export", taken]  # fmt: skip
        self.export_while_it_runs(job)
        self.assertIn("loss", topology.figures_of_model(taken, held_out))
        # At the end it has said how the model can still be had.
        self.assertIn("start each of its ServerApps again, by hand, with one", job.said("server"))
        expected = topology.last_evaluation(log)
        job.commands["server"] += ["--snapshot-dir", job.snapshots]
        job.start("server")
        self.assertEqual(job.wait("server"), 0)
        found = topology.figures_of_model(job.snapshots / f"{job.name}-end" / "model", held_out)
        self.assertEqual(found, {key: expected[key] for key in found})

    print_rows = f"""
import pathlib, sys
import numpy
sys.path.insert(0, "{topology.ROOT / "docs"}")
from load_snapshot import load
for path in pathlib.Path(sys.argv[1]).glob("*.npy"):
    numpy.load(path)
_, ids, rows, admitted = load(sys.argv[1])
for row_id, row, is_admitted in zip(ids, rows, admitted):
    print(row_id, row.tobytes().hex(), is_admitted)
"""

    def numpy(self, *words):
        """What a program of the Python that has NumPy prints."""
        run = subprocess.run(["/usr/bin/python3", "-B", *words], capture_output=True, text=True,
                             timeout=topology.PATIENCE, check=False)  # fmt: skip
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout

    def test_numpy_loads_it_and_damage_is_an_error_that_names_the_file(self):
        # Texts as ids: some come often, some once. And rows without optimizer state.
        self.features = list(self.features)
        self.features[self.features.index("--ids") + 1] = "shop,words"
        self.training = [*self.training, "--admit-after", "2", "--optimizer", "sgd"]
        job, folder = self.run_with_snapshots()
        self.assert_equals_reference(job)
        end = job.snapshots / f"{job.name}-end"
        loaded = self.numpy(topology.ROOT / "docs" / "load_snapshot.py", end, job.weights)
        self.assertIn("the same weights", loaded)
        # By their ids the rows are those of the reference loop.
        _, reference = job.reference()
        expected = {row_id: (row.values.hex(), int.from_bytes(row.updates, "little") >= 2)
                    for row_id, row in reference.items()}
        learnt = sum(admitted for _, admitted in expected.values())
        self.assertGreater(learnt, 500)
        self.assertGreater(len(expected) - learnt, 500)
        self.assertIn(f"{len(expected)} embedding rows of 5 floats, {len(expected) - learnt} of them "
                      "not admitted yet", loaded)
        rows = [line.split() for line in self.numpy("-c", self.print_rows, end).splitlines()]
        self.assertEqual(len(rows), len(expected))
        rows = {int(row_id): (values, admitted == "True") for row_id, values, admitted in rows}
        different = [(i, rows.get(i), row) for i, row in expected.items() if rows.get(i) != row]
        self.assertFalse(different[:3], f"{len(different)} rows of {len(expected)} are others")
        damaged = folder / "embedding-values-1.npy"
        with open(damaged, "r+b") as file:
            file.seek(200)
            file.write(b"damage")
        again = self.job(name="-damaged", features=self.features, training=self.training)
        again.commands["server"] += ["--from-snapshot", folder]
        again.start("server")
        self.assertEqual(again.wait("server"), 1)
        self.assertIn("embedding-values-1.npy", again.log("server"))
        damaged.unlink()
        again.start("server")
        self.assertEqual(again.wait("server"), 1)
        self.assertIn("embedding-values-1.npy", again.log("server"))


class Shards(OnABroker):
    servers = {"server": [0, 3], "server1": [1], "server2": [2, 4]}

    def test_shards_of_several_processes_end_in_the_weights_of_the_reference_loop(self):
        job = self.job(servers=self.servers).start()
        job.wait_all()
        self.assert_equals_reference(job)
        self.assert_every_row_counted_once(job)
        # Who starts when all has ended has to read the others' shards before it writes all weights.
        job.weights.unlink()
        job.start("server").wait_all()
        self.assert_equals_reference(job)

    def test_bounded_and_eventual_jobs_of_several_shards_count_every_row_once(self):
        for consistency in ["bounded:2", "eventual"]:
            with self.subTest(consistency):
                job = self.job(name=consistency.replace(":", "-"), servers=self.servers, training=[
                    "--consistency", consistency, "--batch-rows", "16"]).start()
                job.wait_all()
                summary = self.assert_every_row_counted_once(job)
                self.assertGreater(summary["progressive"]["accuracy"],
                                   summary["progressive"]["prior_accuracy"] + 0.1)

    def test_servers_and_workers_killed_in_turn_change_no_weight(self):
        job = self.job(servers=self.servers, pace=4000, fed=True).start()
        Crashes.disturb(self, job, ["server1", "worker0", "server", "server2", "worker1"], seed=6)
        job.wait_all()
        self.assert_equals_reference(job)
        self.assert_every_row_counted_once(job)

    def test_a_server_takes_over_the_shard_of_another_from_its_replica(self):
        job = self.job(servers={"server": [0], "server1": [1]}, pace=2000,
                       fed=True)  # fmt: skip
        for server in ["server", "server1"]:
            job.commands[server] += ["--replicas", "1"]
        job.start()
        job.feed(0.5)
        job.wait_for_log("server1", "shard 0: this server keeps a replica")
        job.wait_for_checkpoints()
        job.feed(0.9)
        job.kill_all(["server", "server1"])
        del job.processes["server"]
        subprocess.run(["rm", "-rf", job.folder / "server"], check=True)
        command = job.commands["server1"]
        command[command.index("--server-ids") + 1] = "0,1"
        job.start("server1")
        job.feed(1)
        job.wait_all()
        self.assertIn("shard 0: uses the replica that this server kept", job.log("server1"))
        self.assert_equals_reference(job)
        self.assert_every_row_counted_once(job)

    def test_all_servers_killed_at_once_come_back_without_their_disks(self):
        job = self.job(servers=self.servers, pace=2000, fed=True).start()
        job.feed(0.5)
        job.wait_for_checkpoints()
        job.feed(0.9)
        job.kill_all(self.servers)
        for server in self.servers:
            shutil.rmtree(job.folder / server)
        job.start(*self.servers)
        job.feed(1)
        job.wait_all()
        self.assert_equals_reference(job)
        self.assert_every_row_counted_once(job)


class Recovery(OnABroker):
    """Three servers, each with a replica of its neighbour's shard, which it gives to it if asked."""

    features = Embeddings.features
    servers = {"server": [0], "server1": [1], "server2": [2]}

    def start(self, replicas=1):
        job = self.job(features=self.features, servers=self.servers, training=Embeddings.training,
                       pace=1250, fed=True)  # fmt: skip
        for server in self.servers:
            job.commands[server] += ["--replicas", str(replicas),
                                     "--replica-listen", "127.0.0.1:0"]  # fmt: skip
        job.start()
        job.feed(0.5)
        for i, server in enumerate(self.servers):
            job.wait_for_log(server, " are served at 127.0.0.1:")
            for j in range(1, 1 + replicas):
                self.assertRegex(job.log(server), f"replicas of shard.* {(i - j) % 3}[ ,].*are served")
        job.wait_for_checkpoints()
        job.feed(0.9)  # during what is to happen
        return job

    def legal_source(self, job, shard, source):
        """Of a peer that does not answer in time a server takes no replica, and says so."""
        said = job.said(list(self.servers)[shard])
        if ("replica" in source and f"shard {shard}: received its replica from" not in said
                and re.search("no usable replica from .*(Deadline Exceeded|no data for|too slow)", said)):
            return "no copy, all of parameters"
        return source

    def finish(self, job, came_back):
        """came_back: the shards, and where each had its copy from."""
        job.feed(1)
        job.wait_all()
        self.assert_equals_reference(job)
        recoveries = {r["shard"]: r for r in job.summary().get("recoveries", [])}
        self.assertEqual(sorted(recoveries), sorted(came_back))
        for shard, source in came_back.items():
            recovery = recoveries[shard]
            self.assertIn(self.legal_source(job, shard, source), recovery["source"])
            self.assertGreater(recovery["down_seconds"], 0)
            self.assertLess(recovery["down_seconds"], topology.PATIENCE)
            self.assertIn(f"shard {shard}: recovered in ", job.log(list(self.servers)[shard]))

    def test_a_killed_server_goes_on_from_its_disk(self):
        job = self.start()
        job.kill("server1")
        job.start("server1")
        self.finish(job, {1: "own disk"})

    def test_a_server_without_its_folder_takes_the_replica_of_another(self):
        job = self.start()
        job.kill("server1")
        shutil.rmtree(job.folder / "server1")
        job.start("server1")
        self.finish(job, {1: "replica of 127.0.0.1:"})

    def test_a_server_whose_folder_and_whose_replica_are_gone_reads_the_topic(self):
        job = self.start()
        # What others write there is no checkpoint, and stops neither replicas nor recovery.
        self.broker.send_keyed(f"{job.name}.parameters", [f"not ours {i}" for i in range(30)])
        job.wait_for_log("server2", "record skipped: its key is unknown")
        job.kill_all(["server1", "server2"])
        for server in ["server1", "server2"]:
            shutil.rmtree(job.folder / server)
        job.start("server1")
        job.wait_for_log("server1", "shard 1: no server served a usable replica")
        job.start("server2")
        # The first is back and may have a replica of shard 1 again, but of shard 2 has none: its
        # neighbour is server 0, which lives.
        self.finish(job, {1: "no copy, all of parameters", 2: "replica of 127.0.0.1:"})

    def test_as_many_as_there_are_replicas_may_lose_their_folders_at_once(self):
        job = self.start(replicas=2)
        job.kill_all(["server1", "server2"])
        for server in ["server1", "server2"]:
            shutil.rmtree(job.folder / server)
        job.start("server1", "server2")
        self.finish(job, dict.fromkeys([1, 2], "replica of 127.0.0.1:"))

    def test_all_servers_killed_at_once_go_on_from_their_disks(self):
        job = self.start()
        job.kill_all(self.servers)
        job.start(*self.servers)
        self.finish(job, dict.fromkeys(range(3), "own disk"))

    def test_a_server_that_hangs_is_replaced_and_stops_when_it_moves_again(self):
        job = self.start()
        zombie = job.processes["server1"]
        self.addCleanup(zombie.kill)  # job.close() knows its successor only
        zombie.send_signal(signal.SIGSTOP)
        job.feed(0.95)  # so that there are gradients of which it does not know
        start = job.log("server1")
        job.start("server1")
        job.wait_for_log("server1", "this process uses a folder beside it")
        job.wait_for_log("server1", "shard 1: recovered in ")
        self.assertIn(self.legal_source(job, 1, "replica of 127.0.0.1:"), job.said("server1"))
        zombie.send_signal(signal.SIGCONT)
        self.assertEqual(zombie.wait(topology.PATIENCE), 4, job.log("server1"))
        # Whichever it meets first: its checkpoint is refused, or what it would read is gone.
        self.assertIn("ServerApp: shard 1 was taken over by another process",
                      job.log("server1")[len(start):])
        # The zombie has let go of its folder: of the two the one that is further on stays. (They may
        # end alike, when the replacement is killed before its first checkpoint.)
        job.kill("server1")
        job.start("server1")
        job.wait_for_log("server1", "the first is older and is removed")
        self.finish(job, {1: "own disk"})
        removed, its_end, kept, end = re.search(
            r"shard 1: two folders hold this shard: (\S+) \(up to offset (\d+) of parameters\) and "
            r"(\S+) \(up to (\d+)\); the first",
            job.log("server1")).groups()
        self.assertLessEqual(int(its_end), int(end))
        own = str(job.folder / "server1" / f"{job.name}-shard-1")
        self.assertEqual({removed, kept}, {own, own + ".2"})
        self.assertFalse(pathlib.Path(removed).exists())
        self.assertTrue(pathlib.Path(kept).exists())


class NoCopyLeft(OnABroker):
    """`parameters` deleted, and the disk with it."""

    def lose(self, job):
        job.kill("server")
        shutil.rmtree(job.folder / "server")
        self.broker.delete(f"{job.name}.parameters")

    def test_a_shard_goes_on_from_the_weights_of_a_worker_if_that_is_wanted(self):
        # One worker process: where workers move meanwhile, nobody has the weights.
        job = self.job(pace=750, fed=True)
        job.commands["worker0"] += ["--session-timeout", "60"]  # nor if it is slow
        job.start("server", "worker0", "producer").feed(0.5)
        job.wait_for_checkpoints()
        job.feed(0.9)
        self.lose(job)
        job.start("server")
        self.assertEqual(job.wait("server"), 1)
        self.assertIn("give --weights-from-workers", job.log("server"))

        job.commands["server"].append("--weights-from-workers")
        job.start("server")
        job.wait_for_log("server", "NO COPY IS LEFT")
        job.wait_for_log("server", "restored from the weights of a worker, at optimizer step ")
        job.feed(1)
        job.wait_all()
        # Its optimizer began anew, so the weights are others; but what was learnt is not gone.
        steps = int(re.search("of a worker, at optimizer step ([0-9]+)", job.log("server")).group(1))
        self.assertGreater(steps, 10)
        summary = job.summary()
        self.assertGreaterEqual(summary["rounds"], ROWS // 4 // 16)
        self.assertLess(summary["rows_trained"], ROWS, "what was counted before is lost")
        self.assertGreater(summary["progressive"]["accuracy"],
                           summary["progressive"]["prior_accuracy"] + 0.1)


class ParametersMadeAnew(OnABroker):
    """`parameters` deleted, but not the disks."""

    features, training, servers = Embeddings.features, Embeddings.training, Embeddings.servers

    def remade(self, job):
        topic = f"{job.name}.parameters"
        self.broker.delete(topic)
        self.broker.create(topic, job.shards, "cleanup.policy=compact")

    def test_a_running_server_stops_and_writes_no_checkpoint_that_passes_for_the_shard(self):
        job = self.job(features=self.features, training=self.training, servers=self.servers,
                       pace=2000, fed=True)  # fmt: skip
        job.start().feed(0.8)
        job.wait_for_checkpoints()
        job.wait_until_it_stands()
        self.remade(job)
        job.feed(1)
        for server in self.servers:
            self.assertEqual(job.wait(server), 1)
            # By its next checkpoint; or, who writes all weights to a file, by what it reads. (On a
            # busy machine the topic is away for seconds.)
            self.assertRegex(job.log(server), "deleted and recreated|is gone: it was deleted")
        self.assertEqual(self.broker.keys(f"{job.name}.parameters", may_be_empty=True), [])
        # Nor does one start on its folder, or remove it.
        job.start("server")
        self.assertEqual(job.wait("server"), 1)
        self.assertIn("may be the best copy left", job.said("server"))
        self.assertTrue((job.folder / "server" / f"{job.name}-shard-0").is_dir())


    def test_a_running_server_whose_parameters_are_gone_ends_and_names_them(self):
        job = self.job(fed=True).start()
        job.feed(0.3)
        job.wait_for_checkpoints()
        self.broker.delete(f"{job.name}.parameters")
        job.feed(0.6)
        self.assertEqual(job.wait("server"), 1)
        self.assertIn(f"topic '{job.name}.parameters' is gone", job.log("server"))


class BadInput(OnABroker):
    def test_records_that_nobody_can_decode_go_to_the_dead_letter_topic_and_harm_nothing(self):
        job = self.job(fed=True)
        # Who takes over from another reads no weights that were sent before.
        job.commands["worker0"] += ["--session-timeout", "60"]
        job.start("server", "worker0", "producer").feed(0.5)
        job.wait_for_readers()
        self.broker.send({f"{job.name}.{topic}": f"no {topic} of ours"
                          for topic in ("gradients", "input-data", "weights")})
        job.feed(1)
        job.wait_all()
        self.assert_equals_reference(job)
        summary = self.assert_every_row_counted_once(job)
        self.assertEqual(summary["refused"], 1)
        self.assertEqual(summary["undecodable_rows"], 1)
        letters = self.broker.records(f"{job.name}.dead-letter", 3)
        for topic in ("gradients", "input-data", "weights"):
            self.assertIn(f"no {topic} of ours".encode(), letters)
        self.assertIn(b"the key is not a worker", letters)

    def test_a_model_that_no_memory_holds_ends_the_programs_with_the_remedy(self):
        # (Sent whole: as rows it takes only the memory of those that are named.)
        job = self.job(features=[*topology.FEATURES, "--categorical-buckets", str(4 * 10**9)],
                       training=[*SEQUENTIAL, "--wide-above", str(10**12)])  # fmt: skip
        names = ("server", "worker0", "worker1")
        for name in names:  # some machines promise more memory than they have
            job.commands[name] = ["prlimit", "--as=8589934592", *job.commands[name]]
        job.start()
        for name in names:
            self.assertEqual(job.wait(name), 1)
            self.assertIn("out of memory", job.log(name))

    def test_malformed_rows_go_to_the_reject_file_and_take_no_number(self):
        data = self.path / "malformed.csv"
        topology.write_csv(data, 500)
        lines = data.read_bytes().split(b"\r\n")
        lines[3:3] = [b"1,low,no number,1,north,1,good", b"2,low,1", b"3,never heard of,1,1,north,1,a",
                      b"4,low,1,1,north,1,\xff\xfe"]  # fmt: skip
        data.write_bytes(b"\r\n".join(lines))
        job = self.job(data=data, features=[*topology.FEATURES, "--classes", "low,middle,high"])
        job.start()
        job.wait_all()
        self.assert_equals_reference(job)
        self.assert_every_row_counted_once(job, 500)
        self.assertIn("holds 500 rows and the end; 4 malformed rows are in", job.log("producer"))
        with open(job.folder / "rejects.csv", newline="", encoding="utf-8", errors="replace") as file:
            rejects = list(csv.DictReader(file))
        self.assertEqual(len(rejects), 4)
        for reject, reason in zip(rejects, ["price", "fields", "never heard of", "UTF-8"]):
            self.assertIn(reason, reject["reason"])

    def test_too_many_malformed_rows_end_the_producer_with_an_error(self):
        data = self.path / "bad.csv"
        topology.write_csv(data, 50)
        data.write_bytes(data.read_bytes() + b"1,low,nan?,1,north,1,good\r\n" * 3)
        job = self.job(data=data, producer=["--max-rejects", "2"],
                       features=[*topology.FEATURES, "--classes", "low,middle,high"])  # fmt: skip
        job.start("producer")
        self.assertEqual(job.wait("producer"), 1)
        self.assertIn("more than 2 malformed rows", job.log("producer"))

    def test_a_refused_input_leaves_no_trace_in_the_job_and_its_files(self):
        features = [*topology.FEATURES, "--classes", "low,middle,high"]
        data = self.path / "mine.csv"
        topology.write_csv(data, 300)
        data.write_bytes(data.read_bytes() + b"1,low,nan?,1,north,1,good\r\n")
        job = self.job(data=data, features=features)
        # Features alone are enough for everybody to join.
        job.commands["features"] = [*job.commands["producer"], "--features-only"]
        job.start("server", "worker0", "features")
        self.assertEqual(job.wait("features"), 0)
        self.assertIn("no row was sent", job.log("features"))
        job.wait_for_readers()
        job.start("producer")
        for name in ("producer", "server", "worker0"):
            self.assertEqual(job.wait(name), 0)
        points, rejects = self.producer_points(job), (job.folder / "rejects.csv").read_text()
        self.assertGreater(points, 0)
        self.assertRegex(job.log("server"), r"(?m)^[\d:.]+ info classes, in the order of their columns in .*: "
                                            r"low, middle, high$")
        self.assertIn("nan?", rejects)

        topology.write_csv(data, 299)
        data.write_bytes(data.read_bytes() + b"1,low,other?,1,north,1,good\r\n" * 2)
        job.start("producer")
        self.assertEqual(job.wait("producer"), 1)
        self.assertIn("holds rows of another input", job.said("producer"))
        self.assertNotIn("already been sent", job.said("producer"))
        self.assertEqual(self.producer_points(job), points)
        self.assertEqual((job.folder / "rejects.csv").read_text(), rejects)
        self.assertFalse((job.folder / "rejects.csv.tmp").exists())

    def producer_points(self, job):
        return [key for key, _ in self.broker.keys(f"{job.name}.metrics")].count(b"producer")

    def test_another_number_of_workers_is_an_error_that_says_what_to_do(self):
        job = self.job().start()
        job.wait_all()
        job.commands["worker0"] += ["--workers", "3"]
        job.start("worker0")
        self.assertEqual(job.wait("worker0"), 1)
        self.assertIn("was started with --workers 4, here are 3", job.log("worker0"))
        self.assertIn("another --job", job.log("worker0"))

    def test_two_servers_with_different_settings_do_not_share_a_job(self):
        # A worker that is alone is sure to get partitions.
        job = self.job().start("server", "worker0", "producer")
        job.wait_for_log("worker0", "joined; reads rows")
        first = job.processes["server"]
        job.commands["server"] += ["--l2", "0.5", "--data-dir", job.folder / "other"]
        job.start("server")
        self.assertEqual(job.wait("server"), 1)
        self.assertIn("l2", job.log("server"))
        job.processes["server"] = first
        job.start("worker1")
        job.wait_all()


class Watching(OnABroker):
    """Watch --once: the state of a job, and its exit code."""

    def wait_for(self, job, code, reason, further=lambda now: True):
        deadline = time.monotonic() + topology.PATIENCE
        while True:
            found, now = job.watched()
            if found == code and reason in now.get("reason", "") and further(now):
                return now
            self.assertLess(time.monotonic(), deadline, (found, now))
            time.sleep(0.5)

    def test_a_job_is_told_to_wait_for_rows_for_its_server_to_be_stalled_or_to_have_ended(self):
        job = self.job(fed=True).start()
        job.feed(0.3)
        now = self.wait_for(job, 4, "that were sent are trained on",
                            # The producer lives, its pipe is silent.
                            lambda now: now["programs"][0]["seconds"] < 5)
        self.assertEqual(now["state"], "waiting")
        job.kill("server")
        now = self.wait_for(job, 4, "for ServerApp, shard 0 (silent for ")
        self.assertEqual((now["rows_per_second_now"], now["seconds_left"]), (0, None))
        job.kill_all(["producer", "worker0", "worker1"])
        now = self.wait_for(job, 5, "no program has been heard from for ")
        self.assertEqual((now["state"], now["rows_per_second_now"]), ("stalled", 0))

        ended = self.job("-ended").start()
        ended.wait_all()
        self.assertEqual(self.wait_for(ended, 3, "")["state"], "ended")

    def test_a_job_that_is_stopped_cleanly_has_not_crashed(self):
        job = self.job(fed=True).start()
        job.feed(0.5)
        job.wait_for_checkpoints()
        for name in ["producer", "worker0", "worker1", "server"]:
            self.assertEqual(job.interrupt(name), 130, job.log(name))
        now = self.wait_for(job, 5, "stopped cleanly at ")
        self.assertEqual(now["state"], "stopped")
        self.assertIn("; everything is in a checkpoint", now["reason"])
        job.start("server")
        self.assertEqual(self.wait_for(job, 4, "for ")["state"], "waiting")

    def test_a_job_that_learns_runs(self):
        # For longer than Watch may take to look on a busy machine.
        job = self.job(producer=["--rate", "100"]).start()
        now = self.wait_for(job, 0, "")
        self.assertEqual(now["state"], "running")
        self.assertEqual([p["name"] for p in now["programs"][:2]],
                         ["CsvProducer", "ServerApp, shard 0"])


    def test_what_tells_a_run_from_others_outlives_its_server(self):
        job = self.job(producer=["--max-rejects", "7"], fed=True).start()
        job.feed(0.3)
        before = self.wait_for(job, 4, "that were sent are trained on")
        self.assertIsNone(before["ended_at"])
        job.kill("server")
        time.sleep(1.1)  # another second
        job.start("server")
        job.feed(1)
        job.wait_all()
        summary = job.summary()
        self.assertEqual(summary["started_at"], before["started_at"])
        self.assertLess(summary["started_at"], summary["ended_at"])
        self.assertEqual(summary["settings"]["--max-rejects"], "7")
        self.assertEqual(summary["settings"]["--label"], "verdict")
        self.assertEqual(set(summary["versions"]), {"CsvProducer", "ServerApp", "WorkerApp"})
        self.assertEqual(summary["class_count"], 3)


class Order(OnABroker):
    def test_a_worker_that_comes_after_the_end_ends_too(self):
        job = self.job().start()
        job.wait_all()
        job.start("worker0")
        self.assertEqual(job.wait("worker0"), 0, job.log("worker0"))

    def test_a_snapshot_of_a_job_that_is_not_there_or_does_not_run_is_an_error_at_once(self):
        job = self.job()
        job.commands["ask"] = [*job.commands["server"], "--checkpoint-now", "--snapshot-dir",
                               job.folder / "snapshots"]  # fmt: skip
        job.start("ask")
        self.assertEqual(job.wait("ask"), 1)
        self.assertIn(f"no job {job.name} at", job.log("ask"))
        job.start("server")
        job.wait_for_log("server", "waiting for its features")
        job.start("ask")
        self.assertEqual(job.wait("ask"), 1)
        self.assertIn(f"job {job.name} has not started", job.log("ask"))
        job.start("worker0", "worker1", "producer")
        del job.processes["ask"]
        job.wait_all()
        job.start("ask")
        self.assertEqual(job.wait("ask"), 1)
        self.assertIn(f"job {job.name} has ended", job.log("ask"))


class BrokerThatHangs(OnABroker):
    """For so long that its controller leaves it out of the cluster (it is fenced)."""

    needs_own_broker = True

    @classmethod
    def make_broker(cls, folder):
        return topology.Broker(folder, options=["--config", "broker.session.timeout.ms=1000",
                                                "--config", "broker.heartbeat.interval.ms=300"])

    def test_is_waited_for_by_programs_that_start_meanwhile(self):
        job = self.job()
        for _ in range(3):
            self.broker.signal(signal.SIGSTOP)
            time.sleep(2)
            job.start()  # they ask when it goes on, and no broker is in service yet
            time.sleep(0.5)
            self.broker.signal(signal.SIGCONT)
            job.wait_for_readers()
            job.kill_all(job.commands)
        job.start()
        job.wait_all()
        self.assert_equals_reference(job)


class OnKafka39(OnABroker):
    needs_own_broker = True
    version = "3.9.1"

    def test_sequential_one_pass_with_a_killed_server_equals_the_reference_loop(self):
        job = self.job().start()
        time.sleep(1)
        if job.processes["server"].poll() is None:
            job.kill("server")
            job.start("server")
        job.wait_all()
        self.assert_equals_reference(job)


class ThreeBrokers(OnABroker):
    """Of topics with three replicas, two of which must be in sync."""

    needs_own_broker = True
    brokers = 3

    def test_each_killed_in_turn_costs_a_pause_and_nothing_else(self):
        job = self.job(common=["--replication-factor", "3"], fed=True,
                       servers={"server0": [0], "server1": [1]}).start()  # fmt: skip
        job.feed(0.2)
        job.wait_for_checkpoints()
        for node in 1, 2, 3:
            self.broker.kill(node=node)
            job.feed(0.2 * node + 0.1)
            time.sleep(3)
            self.broker.start()
            job.feed(0.2 * node + 0.2)
            time.sleep(1)
        job.feed(1)
        job.wait_all()
        self.assert_equals_reference(job)
        self.assert_every_row_counted_once(job)


if __name__ == "__main__":
    topology.main()
