"""Rows from a topic that Kafka's own console producer writes, or kcat, through a whole job on a real broker."""

import csv
import json
import pathlib
import random
import signal
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import topology  # noqa: E402

ROWS = 12_001
SEQUENTIAL = ["--consistency", "sequential", "--batch-rows", "16", "--learning-rate", "0.2",
              "--l2", "0.0001"]  # fmt: skip
NUMBERS = ["--label", "late", "--numeric", "x", "--classes", "no,yes"]


class SourceJob(topology.Job):
    """A job whose producer is TopicSource."""

    def __init__(self, broker, name, folder, topic, flags=(), **options):
        super().__init__(broker, name, folder, **options)
        self.commands["producer"] = [
            topology.PROGRAMS / "TopicSource", "--brokers", broker.address, "--job", name,
            "--workers", str(self.workers), "--topic", topic, *self.features, *flags,
        ]  # fmt: skip


class OnABroker(topology.OnABroker):
    def topic(self, partitions=1, *config, suffix="-rows"):
        name = self.id().rsplit(".", 1)[-1].replace("_", "-") + suffix
        self.broker.create(name, partitions, *config)
        return name

    def write(self, topic, lines, *flags):
        """Values, one a line, without keys; the client, kcat, chooses the partitions."""
        self.broker.write(topic, lines, *flags)

    def write_by_kafkas_own(self, topic, lines):
        """The same by a client that shares no code with ours, which takes a JVM its time to start."""
        self.broker.tool("kafka-console-producer", "--topic", topic,
                         text="".join(f"{line}\n" for line in lines))

    def write_keyed(self, topic, lines):
        """KEY|VALUE, so that they come to several partitions."""
        self.write(topic, lines, "-K", "|")

    def job(self, topic, flags=(), **options):
        name = self.id().rsplit(".", 1)[-1].replace("_", "-")
        folder = self.path / name
        folder.mkdir()
        options.setdefault("training", SEQUENTIAL)
        job = SourceJob(self.broker, name, folder, topic, flags, **options)
        self.addCleanup(job.close)
        return job

    def letters(self, job, count):
        return self.broker.records(f"{job.name}.dead-letter", count)

    def until_rows(self, job, rows):
        """Until input-data has so many rows, by the source's own progress in the metrics."""
        end = time.monotonic() + topology.PATIENCE
        while (job.watched()[1].get("rows_sent") or 0) < rows:
            self.assertLess(time.monotonic(), end, job.log("producer"))
            time.sleep(0.3)  # (each question starts a program, which asks the broker)

    def disturb(self, job, victims, seed, pause):
        draw = random.Random(seed)
        for victim in victims:
            if victim == "producer":  # it has looked whether another one runs
                job.wait_for_log("producer", "reading the topic")
            time.sleep(draw.uniform(*pause))
            if job.processes[victim].poll() is None:
                job.kill(victim)
                job.start(victim)


class Rows(OnABroker):
    needs_own_broker = True

    def end_and_count(self, job, rows):
        """What has come is all, so the stream ends; each row was counted once."""
        job.kill("producer")
        job.commands["producer"].append("--until-end")
        job.start("producer")
        job.wait_all()
        summary = job.summary()
        self.assertEqual(summary["rows_trained"], rows)
        self.assertEqual(summary["progressive"]["rows"], rows)
        self.assertEqual(summary["undecodable_rows"], 0)

    def test_they_are_learnt_as_those_of_a_file_whoever_is_killed(self):
        data = self.path / "rows.csv"
        topology.write_csv(data, ROWS)
        with open(data, newline="", encoding="utf-8") as file:
            lines = [json.dumps(row) for row in csv.DictReader(file)]
        topic = self.topic()
        self.write_by_kafkas_own(topic, lines[:500])
        # The reference loop learns from the file; here some rows come while everything is killed.
        job = self.job(topic, ["--rows-per-turn", "5"], data=data,
                       features=[*topology.FEATURES, "--classes", "low,middle,high"]).start()
        writer = threading.Thread(target=self.write_by_kafkas_own, args=(topic, lines[500:]))
        writer.start()
        self.disturb(job, ["producer", "worker0", "producer", "server", "producer", "worker1",
                           "producer"], seed=5, pause=(0.3, 1.0))  # fmt: skip
        writer.join()
        self.end_and_count(job, ROWS)
        self.assertIn(f"holds {ROWS:,} rows", job.log("producer"))
        weights, _ = job.reference()
        self.assertEqual(job.weights.read_bytes(), weights)

    def test_whose_level_moves_are_learnt_by_one_of_four_workers_as_if_it_were_alone(self):
        rows = [(number // 200, number % 7) for number in range(4000)]
        data = self.path / "levels.csv"
        with open(data, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("y", "x"), *rows])
        lines = [json.dumps({"y": y, "x": x}) for y, x in rows]
        topic = self.topic()
        self.write(topic, lines[:1500])
        job = self.job(topic, data=data, features=["--label", "y", "--regression", "--numeric", "x"],
                       training=["--consistency", "sequential", "--batch-rows", "16"]).start()
        job.wait_for_log("producer", "Worker 0 gets all rows")
        self.disturb(job, ["producer", "worker0", "server"], seed=6, pause=(0.1, 0.6))
        self.write(topic, lines[1500:])
        self.disturb(job, ["producer", "worker1", "producer"], seed=7, pause=(0.1, 0.6))
        self.end_and_count(job, len(rows))
        job.workers = 1
        self.assertEqual(job.weights.read_bytes(), job.reference()[0])

    def test_that_come_slowly_are_learnt_from_before_their_batch_is_full(self):
        topic = self.topic()
        self.write(topic, ['{"x": 1, "late": "yes"}'] * 9)
        job = self.job(topic, features=NUMBERS,
                       training=["--consistency", "eventual", "--update", "gradient",
                                 "--batch-rows", "1000"]).start()  # fmt: skip
        job.wait_for_rows(9)
        job.kill("producer")
        job.start("producer")
        self.write(topic, ['{"x": 2, "late": "no"}'] * 4)
        job.wait_for_rows(13)
        self.end_and_count(job, 13)

    def test_that_come_one_by_one_are_learnt_from_at_once_in_a_bounded_job_whose_features_were_there(self):
        topic = self.topic()
        sample = self.path / "sample.csv"
        sample.write_text("late,x\nno,1\nyes,2\n", encoding="utf-8")
        job = self.job(topic, features=NUMBERS, training=["--consistency", "bounded:2"])
        job.commands["features"] = [
            topology.PROGRAMS / "CsvProducer", "--brokers", self.broker.address, "--job", job.name,
            "--workers", str(job.workers), *NUMBERS, "--input", sample, "--features-only",
        ]  # fmt: skip
        job.start("features")
        self.assertEqual(job.wait("features"), 0, job.log("features"))
        self.assertIn("turns of 1 row;", job.log("features"))
        job.start(*[name for name in job.commands if name != "features"])
        # Each waits for the one before: in turns of more rows all of these are one worker's, whom
        # the others hold back.
        for rows in range(1, 13):
            self.write(topic, ['{"x": 1, "late": "yes"}'])
            job.wait_for_rows(rows)
        self.end_and_count(job, 12)

    def test_that_come_slowly_in_long_turns_are_warned_of(self):
        topic = self.topic()
        job = self.job(topic, ["--rows-per-turn", "256"], features=NUMBERS,
                       training=["--consistency", "bounded:2"]).start()
        self.write(topic, ['{"x": 1, "late": "yes"}'])
        job.wait_for_log("producer", "each worker gets 256 rows at a time")
        self.assertIn("with --rows-per-turn 1", job.log("producer"))

    def test_of_three_partitions_are_counted_once_when_the_source_is_killed(self):
        topic = self.topic(3)
        draw = random.Random(2)
        lines = [f"{draw.randrange(100)}|{'yes' if i % 3 else 'no'},{i}" for i in range(6000)]
        job = self.job(topic, ["--format", "csv", "--columns", "late,x"], features=NUMBERS,
                       training=["--batch-rows", "16"]).start()
        for some in range(0, len(lines), 2000):
            writer = threading.Thread(target=self.write_keyed, args=(topic, lines[some:some + 2000]))
            writer.start()
            self.disturb(job, ["producer"] * 2, seed=some, pause=(0.3, 1.5))
            writer.join()
            self.until_rows(job, some + 2000)
        self.end_and_count(job, len(lines))


    def test_of_seven_partitions_are_counted_once_whoever_is_killed_the_broker_too(self):
        topic = self.topic(7)
        draw = random.Random(3)
        lines = [json.dumps({"x": draw.randrange(100), "late": "yes" if i % 3 else "no"}) for i in range(9000)]
        keyed = [f"{draw.randrange(1000)}|{line}" for line in lines]
        job = self.job(topic, features=NUMBERS, training=["--batch-rows", "16"]).start()
        for some in range(0, len(keyed), 3000):
            self.write(topic, keyed[some:some + 3000], "-K", "|", "-H", "from=a test")
            victims = ["producer", "server", "worker0", "worker1"]
            draw.shuffle(victims)
            self.disturb(job, victims, seed=some, pause=(0.1, 0.6))
            # It is in the middle of the rows, of a transaction or of its end.
            job.wait_for_log("producer", "reading the topic")
            time.sleep(draw.uniform(0, 0.3))
            self.broker.kill()
            time.sleep(draw.uniform(0, 0.5))
            self.broker.start()
            self.until_rows(job, some + 3000)
        self.end_and_count(job, len(lines))


class Features(OnABroker):
    def test_are_those_that_csv_producer_would_have_published(self):
        topic = self.topic()
        rows = [{"late": "no", "carrier": "AA"}, {"late": "yes", "carrier": "UA"}]
        self.write(topic, map(json.dumps, rows))
        data = self.path / "carriers.csv"
        data.write_text("late,carrier\nno,AA\nyes,UA\n", encoding="utf-8")
        features = ["--label", "late", "--categorical", "carrier"]
        job = self.job(topic, ["--until-end"], features=features)
        job.commands["csv"] = [
            topology.PROGRAMS / "CsvProducer", "--brokers", self.broker.address, "--job", job.name,
            "--workers", str(job.workers), *features, "--categorical-buckets", "262144",
            "--input", data, "--features-only",
        ]  # fmt: skip
        job.start("producer")
        self.assertEqual(job.wait("producer"), 0, job.log("producer"))
        job.start("csv")
        self.assertEqual(job.wait("csv"), 0, job.log("csv"))


class Records(OnABroker):
    def test_that_cannot_be_used_go_to_dead_letter_once_and_tombstones_are_left_out(self):
        topic = self.topic()
        values = ['{"late": "no", "x": 1}', "no JSON", "NOTHING", '{"late": "maybe", "x": 2}',
                  '{"late": "yes", "x": 3}', "last"]
        self.broker.tool("kafka-console-producer", "--topic", topic, "--property", "parse.key=true",
                         "--property", "key.separator=|", "--property", "null.marker=NOTHING",
                         "--property", "parse.headers=true", "--property", "headers.delimiter=;",
                         text="".join(f"from:shop;key|{value}\n" for value in values))
        job = self.job(topic, features=NUMBERS)
        job.start("producer")
        deadline = time.monotonic() + topology.PATIENCE
        while b"last" not in self.letters(job, 3) and time.monotonic() < deadline:
            time.sleep(0.2)
        job.kill("producer")
        job.commands["producer"].append("--until-end")
        job.start("producer")
        self.assertEqual(job.wait("producer"), 0)
        said = job.log("producer")
        self.assertIn("holds 2 rows, 0 of them from this run", said)
        self.assertIn("3 records could not be used", said)
        self.assertIn("1 records had no value", said)
        letters = self.letters(job, 3)
        self.assertEqual(letters.count(topic.encode()), 3, letters)
        for reason in b"malformed JSON", b"maybe":
            self.assertIn(reason, letters)

    def test_of_a_topic_that_is_not_there_end_the_source(self):
        job = self.job("nowhere", ["--until-end"], features=NUMBERS)
        job.start("producer")
        self.assertEqual(job.wait("producer"), 1)
        self.assertIn(f"there is no topic nowhere at {self.broker.address}: check --topic",
                      job.log("producer"))

    def test_that_are_still_to_come_are_waited_for_if_the_classes_are_given(self):
        topic = self.topic()
        job = self.job(topic, features=NUMBERS[:4])
        job.start("producer")
        self.assertEqual(job.wait("producer"), 1)
        self.assertIn(f"{topic} has no records yet to find the classes in; give the classes by "
                      "--classes A,B,..., and TopicSource waits", job.said("producer"))
        job.commands["producer"] += NUMBERS[4:]
        job.start("producer")
        job.wait_for_log("producer", "has been read to its end; waiting for further records")
        self.write(topic, ['{"x": 1, "late": "no"}', '{"x": 2, "late": "yes"}'])
        self.until_rows(job, 2)

    def test_none_of_which_is_a_row_are_told_with_what_is_to_be_checked(self):
        topic = self.topic()
        self.write(topic, ['{"x": 1, "lat": "no"}'] * 1000)
        told = f"{topic}: none of the first 1,000 records is a row; the most frequent reason (1,000): "
        check = "check --format, --label and the columns"
        job = self.job(topic, ["--until-end"], features=["--label", "late", "--numeric", "x"])
        job.start("producer")
        self.assertEqual(job.wait("producer"), 1)
        self.assertIn(f"{told}the label is empty; {check}", job.said("producer"))
        job.commands["producer"] += ["--classes", "no,yes"]
        job.start("producer")
        self.assertEqual(job.wait("producer"), 0)
        self.assertIn(f'{told}column "late": the label is empty; {check}', job.said("producer"))
        self.assertIn("1,000 records could not be used", job.said("producer"))

    def test_of_transactions_leave_holes_that_are_no_rows(self):
        topic = self.topic(3)
        payloads = self.path / "payloads"
        payloads.write_text("no,1\nyes,2\n")
        self.broker.tool("kafka-producer-perf-test", "--topic", topic, "--num-records", "3000",
                         "--throughput", "-1", "--payload-file", str(payloads),
                         "--transactional-id", topic, "--transaction-duration-ms", "20",
                         "--producer-props", f"bootstrap.servers={self.broker.address}")
        self.assertGreater(sum(self.broker.offsets(topic, 3, "latest")), 3000)
        job = self.job(topic, ["--format", "csv", "--columns", "late,x", "--until-end"],
                       features=NUMBERS)
        job.start("producer")
        self.assertEqual(job.wait("producer"), 0)
        self.assertIn("holds 3,000 rows, 3,000 of them from this run", job.said("producer"))
        self.assertNotIn("deleted", job.said("producer"))

    def with_two_sources(self):
        topic = self.topic()
        self.write(topic, ["no,1", "yes,2"])
        job = self.job(topic, ["--format", "csv", "--columns", "late,x"], features=NUMBERS)
        job.commands["second"] = job.commands["producer"]
        job.start("producer")
        self.until_rows(job, 2)
        job.wait_for_log("producer", "has been read to its end; waiting for further records")
        return topic, job

    def until_one_leaves(self, job):
        end = time.monotonic() + topology.PATIENCE
        while True:
            for name in ("producer", "second"):
                if job.processes[name].poll() is not None:
                    return name
            self.assertLess(time.monotonic(), end, job.log("second"))
            time.sleep(0.02)

    def test_a_second_source_leaves_them_to_the_one_that_runs(self):
        topic, job = self.with_two_sources()
        runs, other, rows = "producer", "second", 2
        # (A busy machine may give who runs no time for so long that it is taken for hung. Then the
        # other goes on alone, and who comes next is to leave it alone.)
        for _ in range(10):
            job.start(other)
            leaves = self.until_one_leaves(job)
            self.assertEqual(job.wait(leaves), 4, job.log(leaves))
            if leaves == other:
                break
            runs, other, rows = other, runs, 0
        self.assertEqual(leaves, other, "each took over from the one that ran")
        self.assertIn("is running", job.said(other))
        self.write(topic, ["no,3"])
        self.until_rows(job, 3)
        self.assertEqual(job.kill(runs, signal.SIGTERM), 130)
        self.assertIn(f"holds 3 rows, {rows + 1} of them from this run", job.said(runs))

    def test_a_source_that_hangs_is_replaced_and_no_row_is_doubled(self):
        topic, job = self.with_two_sources()
        job.processes["producer"].send_signal(signal.SIGSTOP)
        job.start("second")
        job.wait_for_log("second", "continuing after them")
        self.write(topic, ["no,3"])
        self.until_rows(job, 3)
        job.processes["producer"].send_signal(signal.SIGCONT)
        self.assertEqual(job.wait("producer"), 4, job.log("producer"))
        last = job.log("producer").strip().splitlines()[-1]
        self.assertRegex(last, f"another TopicSource of this job has taken over .*{job.name}-source.*another --job")
        job.kill("second", signal.SIGTERM)
        self.assertIn("holds 3 rows, 1 of them from this run", job.log("second"))

    def test_that_wait_for_their_transaction_are_written_when_the_source_is_stopped(self):
        topic = self.topic()
        self.write(topic, ["no,1", "yes,2"])
        job = self.job(topic, ["--format", "csv", "--columns", "late,x",
                               "--transaction-interval", "60"], features=NUMBERS)
        job.start("producer")
        job.wait_for_log("producer", "has been read to its end")
        self.assertEqual(job.interrupt("producer"), 130)
        self.assertIn("holds 2 rows, 2 of them from this run", job.said("producer"))

    def test_that_were_deleted_before_they_were_read_are_an_error_or_counted(self):
        topic = self.topic()
        self.write(topic, [f"no,{i}" for i in range(10)] + [f"yes,{i}" for i in range(10)])
        job = self.job(topic, ["--format", "csv", "--columns", "late,x"], features=NUMBERS)
        job.start("producer")
        self.until_rows(job, 20)
        job.kill("producer")
        self.write(topic, [f"no,{i}" for i in range(20, 30)])
        self.broker.delete_before(topic, 25)
        job.commands["producer"].append("--until-end")
        job.start("producer")
        self.assertEqual(job.wait("producer"), 1)
        self.assertIn("5 offsets from 20 on were deleted before they were read", job.said("producer"))
        job.commands["producer"] += ["--on-data-loss", "continue"]
        job.start("producer")
        self.assertEqual(job.wait("producer"), 0)
        self.assertIn("holds 25 rows, 5 of them from this run; 5 offsets were deleted",
                      job.said("producer"))

    def test_of_another_topic_of_the_same_name_are_an_error_unless_losses_are_gone_behind(self):
        topic = self.topic(2)
        lines = [f"{i}|no,{i}" for i in range(10)]
        self.write_keyed(topic, lines)
        job = self.job(topic, ["--format", "csv", "--columns", "late,x"], features=NUMBERS)
        job.start("producer")
        self.until_rows(job, 10)
        job.kill("producer")
        # The same topic is no other one.
        job.start("producer")
        job.wait_for_log("producer", "holds 10 rows already")
        job.kill("producer")
        self.broker.delete(topic)
        self.topic(2)
        self.write_keyed(topic, [*lines, *lines])
        job.commands["producer"].append("--until-end")
        job.start("producer")
        self.assertEqual(job.wait("producer"), 1)
        self.assertIn("the topic was deleted and made again", job.said("producer"))
        self.assertIn("Start a new job (another --job) to read the new topic", job.said("producer"))
        job.commands["producer"] += ["--on-data-loss", "continue"]
        job.start("producer")
        self.assertEqual(job.wait("producer"), 0)
        self.assertIn("reading on behind that offset", job.said("producer"))
        self.assertIn("holds 20 rows, 10 of them from this run", job.said("producer"))

    def test_from_now_on_are_those_that_come_after_the_first_start(self):
        topic = self.topic()
        self.write(topic, ["no,1", "yes,2"])
        job = self.job(topic, ["--format", "csv", "--columns", "late,x", "--from", "now"],
                       features=NUMBERS)
        job.start("producer")
        self.until_started(job)
        job.kill("producer")
        self.write(topic, ["no,3"])  # while nobody reads
        job.commands["producer"].append("--until-end")
        job.start("producer")
        self.assertEqual(job.wait("producer"), 0)
        self.assertIn("holds 1 rows, 1 of them from this run", job.said("producer"))

    def test_from_a_time_on_are_those_that_the_broker_has_got_since(self):
        topic = self.topic()
        self.write(topic, ["no,1", "yes,2"])
        time.sleep(1.1)
        begin = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.write(topic, ["no,3"])
        job = self.job(topic, ["--format", "csv", "--columns", "late,x", "--from", begin, "--until-end"],
                       features=NUMBERS)
        job.start("producer")
        self.assertEqual(job.wait("producer"), 0, job.log("producer"))
        self.assertIn("holds 1 rows, 1 of them from this run", job.said("producer"))

    def until_started(self, job):
        """Until it has written down where it begins."""
        end = time.monotonic() + topology.PATIENCE
        while b"source:state" not in [key for key, _ in self.broker.keys(
                f"{job.name}.job", may_be_empty=True)]:
            self.assertLess(time.monotonic(), end, job.log("producer"))
            time.sleep(0.2)


class Labels(OnABroker):
    """Of another topic, which come later than their rows."""

    def labels_topic(self, partitions):
        name = self.id().rsplit(".", 1)[-1].replace("_", "-") + "-labels"
        self.broker.create(name, partitions)
        return name

    def joined(self, topic, labels, *flags, **options):
        return self.job(topic, ["--labels-from", labels, "--join-key", "id", *flags], **options)

    def test_are_joined_as_if_they_were_in_a_file_whoever_is_killed(self):
        rows = 3000
        data = self.path / "whole.csv"
        topology.write_csv(data, rows, seed=3)
        with open(data, newline="", encoding="utf-8") as file:
            table = list(csv.DictReader(file))
        draw = random.Random(3)
        unlabelled = {i for i in range(rows) if draw.random() < 0.05}
        # The file has the rows that get a label.
        with open(data, "w", newline="", encoding="utf-8") as file:
            out = csv.DictWriter(file, table[0])
            out.writeheader()
            out.writerows(row for i, row in enumerate(table) if i not in unlabelled)
        verdicts = [f'{row["id"]}|{json.dumps({"id": row["id"], "verdict": row["verdict"]})}'
                    for i, row in enumerate(table) if i not in unlabelled]
        draw.shuffle(verdicts)
        verdicts = ["x|no JSON", 'y|{"id": "nobody", "verdict": "low"}',
                    # Before its row.
                    f'{table[-1]["id"]}|{json.dumps({"id": table[-1]["id"], "verdict": "low"})}',
                    *verdicts]  # fmt: skip
        lines = [json.dumps({name: cell for name, cell in row.items() if name != "verdict"})
                 for row in table]
        topic, labels = self.topic(), self.labels_topic(2)
        self.write_keyed(labels, verdicts[:3])
        self.write(topic, lines[:1000])
        job = self.joined(topic, labels, "--join-window", "600", "--rows-per-turn", "5", data=data,
                          features=[*topology.FEATURES, "--classes", "low,middle,high"]).start()

        def write():
            self.write(topic, lines[1000:])
            for some in range(3, len(verdicts), 1000):
                self.write_keyed(labels, verdicts[some:some + 1000])

        writer = threading.Thread(target=write)
        writer.start()
        self.disturb(job, ["producer"] * 4, seed=7, pause=(0.5, 1.5))
        writer.join()
        # The first row without a label waits for ten minutes, and those behind it do.
        self.until_rows(job, min(unlabelled))
        job.kill("producer")
        job.commands["producer"].append("--until-end")
        job.start("producer")
        job.wait_all()
        said = job.log("producer")
        self.assertIn(f"holds {rows - len(unlabelled):,} rows", said)
        self.assertIn(f"of {labels}: {rows - len(unlabelled):,} rows have a label; "
                      f"{len(unlabelled)} without one were left out", said)
        self.assertIn("1 records of labels could not be used", said)
        weights, _ = job.reference()
        self.assertEqual(job.weights.read_bytes(), weights)
        self.assertEqual(self.letters(job, 1).count(labels.encode()), 1)
        source = job.summary()["source"]
        self.assertEqual((source["topic"], source["rows"]), (topic, rows - len(unlabelled)))
        told = source["labels"]
        self.assertEqual((told["topic"], told["matched"], told["unmatched"], told["dead_letters"]),
                         (labels, rows - len(unlabelled), len(unlabelled), 1))

    def test_of_three_partitions_come_or_their_time_passes_while_the_source_is_killed(self):
        topic, labels = self.topic(3), self.labels_topic(3)
        job = self.joined(topic, labels, "--join-window", "5", "--unmatched-label", "no", "--format",
                          "csv", "--columns", "id,x", features=NUMBERS,
                          training=["--batch-rows", "16"]).start()
        self.write_keyed(topic, [f"{i}|{i},1" for i in range(900)])
        self.write_keyed(labels, [f"{i}|{i},yes" for i in range(0, 900, 3)])
        self.disturb(job, ["producer"] * 2, seed=1, pause=(0.3, 1.0))
        # Nothing more comes: they leave since no broker has more.
        self.until_rows(job, 900)
        # A label whose row has left; a row whose label comes while nobody reads.
        self.write_keyed(topic, ["k|1000,1"])
        job.kill("producer")
        self.write_keyed(labels, ["0|1,yes", "k|1000,yes"])
        job.commands["producer"].append("--until-end")
        job.start("producer")
        job.wait_all()
        said = job.log("producer")
        self.assertIn("holds 901 rows", said)
        # How many labels came in time depends on how fast the tools are.
        matched = int(said.rsplit(f"of {labels}: ", 1)[1].split(" rows have a label")[0])
        self.assertLessEqual(matched, 301)
        self.assertIn(f"{901 - matched} without one got that of --unmatched-label", said)
        self.assertEqual(job.summary()["rows_trained"], 901)

    def test_that_were_deleted_are_an_error_or_counted_and_others_are_refused(self):
        topic, labels = self.topic(), self.labels_topic(1)
        words = ["--format", "csv", "--columns", "id,x", "--join-window", "600"]
        job = self.joined(topic, labels, *words, features=NUMBERS)
        job.commands["without"] = [
            "late,x" if word == "id,x" else word for word in job.commands["producer"]
            if word not in ("--labels-from", labels, "--join-key", "id", "--join-window", "600")]
        job.commands["others"] = [topic + "-2" if word == labels else word
                                  for word in job.commands["producer"]]
        job.start("producer")
        job.wait_for_log("producer", "has been read to its end")
        job.kill("producer")
        self.write(topic, ["a,1", "b,2"])
        self.write(labels, ["z,yes", "b,yes", "a,no"])
        self.broker.delete_before(labels, 2)
        job.commands["producer"].append("--until-end")
        job.start("producer")
        self.assertEqual(job.wait("producer"), 1)
        self.assertIn(f"{labels} [0]: 2 offsets from 0 on were deleted", job.said("producer"))
        job.start("without")
        self.assertEqual(job.wait("without"), 1)
        self.assertIn(f"this job has the labels of {labels}: give --labels-from", job.said("without"))
        self.broker.create(topic + "-2")
        job.start("others")
        self.assertEqual(job.wait("others"), 1)
        self.assertIn(f"this job has the labels of {labels}, here is --labels-from {topic}-2",
                      job.said("others"))
        job.commands["producer"] += ["--on-data-loss", "continue"]
        job.start("producer")
        self.assertEqual(job.wait("producer"), 0)
        self.assertIn("1 rows have a label; 1 without one were left out", job.said("producer"))
        self.assertIn("2 offsets of labels were deleted", job.said("producer"))


if __name__ == "__main__":
    topology.main()
