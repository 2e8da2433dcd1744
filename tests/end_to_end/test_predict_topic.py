"""Predictor from topic to topic on a real broker: records of Kafka's own tools, kills, and a broker that dies."""

import collections
import csv
import json
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import topology  # noqa: E402

PREDICTOR = topology.PROGRAMS / "Predictor"
# Of the columns distance, temp and carrier, for the classes no and yes.
MODEL = topology.ROOT / "tests" / "apps" / "model"
CARRIERS = ["UA", "AA", "B6", "an, odd \"one\"", ""]

Record = collections.namedtuple("Record", "time partition headers key value")


def some_rows(count, seed=1):
    draw = random.Random(seed)
    return [{"distance": draw.randrange(100, 5000), "temp": round(draw.uniform(-10, 100), 2),
             "carrier": draw.choice(CARRIERS), "id": i} for i in range(count)]


class OnABroker(topology.OnABroker):
    def setUp(self):
        self.name = self.id().rsplit(".", 1)[-1].replace("_", "-")
        self.input, self.output = f"{self.name}-in", f"{self.name}-out"
        self.processes = []
        self.addCleanup(self.end_all)

    def end_all(self):
        for process in self.processes:
            process.kill()
            process.wait()

    def create(self, *topics, partitions=1):
        for topic in topics:
            self.broker.create(topic, partitions)

    def write(self, lines, *flags):
        self.broker.write(self.input, lines, *flags)

    def write_keyed(self, rows):
        """By their ids, so that they come to several partitions."""
        self.write([f"{row['id']}|{json.dumps(row)}" for row in rows], "-K", "|")

    def command(self, *flags):
        return [PREDICTOR, "--model", MODEL, "--brokers", self.broker.address, "--input-topic", self.input,
                "--output-topic", self.output, *flags]

    def to_end(self, *flags, code=0):
        """Scores what is there; what was said."""
        done = subprocess.run(self.command("--until-end", *flags), capture_output=True, text=True,
                              check=False, timeout=topology.PATIENCE)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def start(self, *flags):
        log = self.path / f"{self.name}-{len(self.processes)}.log"
        with open(log, "w", encoding="utf-8") as out:
            process = subprocess.Popen(self.command(*flags), stdout=out, stderr=out)
        process.log = log
        self.processes.append(process)
        return process

    def wait_for_log(self, process, text):
        end = time.monotonic() + topology.PATIENCE
        while text not in process.log.read_text(encoding="utf-8"):
            self.assertLess(time.monotonic(), end, process.log.read_text(encoding="utf-8"))
            time.sleep(0.02)

    def read(self, topic=None):
        """All committed records of a topic."""
        records = []
        for text in self.broker.read(topic or self.output, "%T<=>%p<=>%h<=>%K<=>%k<=>%S<=>%s"):
            when, partition, headers, key_size, key, size, value = text.decode().split("<=>", 6)
            records.append(Record(int(when), int(partition), headers, None if key_size == "-1" else key,
                                  None if size == "-1" else json.loads(value, parse_float=str, parse_int=str)))
        return records

    def times_by_kafkas_own(self, topic, count):
        """Of a client that shares no code with ours."""
        printed = self.broker.tool("kafka-console-consumer", "--topic", topic, "--from-beginning",
                                   "--isolation-level", "read_committed", "--max-messages", str(count),
                                   "--property", "print.timestamp=true", "--property", "print.value=false")
        return [int(line.removeprefix("CreateTime:")) for line in printed.split()]

    def predictions_of_file(self, rows):
        """What Predictor writes beside the rows of a CSV: class, and probabilities."""
        path, scored = self.path / f"{self.name}.csv", self.path / f"{self.name}-scored.csv"
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, ["id", "distance", "temp", "carrier"])
            writer.writeheader()
            writer.writerows(rows)
        subprocess.run([PREDICTOR, "--model", MODEL, "--input", path, "--output", scored, "--quiet"],
                       check=True, cwd=self.path, timeout=topology.PATIENCE)
        with open(scored, newline="", encoding="utf-8") as file:
            return {row["id"]: (row["predicted_late"], row["probability_no"], row["probability_yes"])
                    for row in csv.DictReader(file)}

    def assert_each_once(self, records, rows):
        """Each of the rows has the prediction that a file's row has, and each source one record."""
        sources = [tuple(record.value["source"].values()) for record in records]
        self.assertEqual(len(set(sources)), len(sources))
        expected = self.predictions_of_file(rows)
        self.assertEqual(len(records), len(rows))
        for record in records:
            row = record.value["row"]
            said = (record.value["class"], *record.value["probabilities"].values())
            self.assertEqual(said, expected.pop(row["id"]))
            self.assertEqual(record.value["source"]["partition"], str(record.partition))


class Records(OnABroker):
    needs_own_broker = True

    def test_keep_key_headers_and_time_and_get_the_predictions_of_a_file(self):
        self.create(self.input, self.output)
        rows = some_rows(20)
        values = [*map(json.dumps, rows), "NOTHING", "{no JSON", '{"distance": "far"}']
        self.broker.tool("kafka-console-producer", "--topic", self.input,
                         *(word for each in ("parse.key=true", "key.separator=|", "null.marker=NOTHING",
                                             "parse.headers=true", "headers.delimiter=;")
                           for word in ("--property", each)),
                         text="".join(f"from:shop,n:{i};key{i}|{value}\n" for i, value in enumerate(values)))
        said = self.to_end("--with-row")
        self.assertIn("got 20 predictions from this run; 2 records could not be used", said)
        self.assertIn("1 tombstone passed on", said)
        records = self.read()
        self.assertEqual([(record.key, record.headers) for record in records],
                         [(f"key{i}", f"from=shop,n={i}") for i in range(23)])
        times = self.times_by_kafkas_own(self.input, 23)
        self.assertEqual([record.time for record in records], times)
        self.assertEqual(self.times_by_kafkas_own(self.output, 23), times)
        self.assert_each_once(records[:20], rows)
        self.assertIsNone(records[20].value)
        self.assertIn("malformed JSON", records[21].value["error"])
        self.assertEqual(records[22].value["source"], {"partition": "0", "offset": "22"})
        self.assertIn("got 0 predictions", self.to_end())
        self.assertEqual(len(self.read()), 23)

    def test_of_seven_partitions_are_scored_once_though_predictor_and_broker_are_killed(self):
        self.create(self.input, self.output, partitions=7)
        rows = some_rows(9000)
        draw = random.Random(4)
        flags = ["--with-row", "--transaction-interval", "0.02"]
        for some in range(0, len(rows), 3000):
            writer = threading.Thread(target=self.write_keyed, args=(rows[some:some + 3000],))
            writer.start()
            for _ in range(4):
                process = self.start(*flags)
                self.wait_for_log(process, "scoring")
                time.sleep(draw.uniform(0.1, 1))
                process.kill()
                process.wait()
            writer.join()
            process = self.start(*flags)
            self.wait_for_log(process, "scoring")
            time.sleep(draw.uniform(0, 0.3))
            self.broker.kill()
            time.sleep(draw.uniform(0, 0.5))
            self.broker.start()
            self.wait_for_log(process, "has been read to its end")
            process.kill()
            process.wait()
        self.to_end(*flags)
        records = self.read()
        self.assertEqual({record.partition for record in records}, set(range(7)))
        self.assertTrue(all(record.key == record.value["row"]["id"] for record in records))
        self.assert_each_once(records, rows)

    def test_beside_their_predictions_may_have_anything_that_json_allows(self):
        self.create(self.input, self.output)
        self.write(['{"distance": 7, "temp": 1, "carrier": "UA", "big": 1e400, "half": "\\ud800"}'])
        self.assertIn("got 1 prediction from this run", self.to_end("--with-row"))
        text, = self.broker.read(self.output, "%s")
        self.assertIn(b'"row":{"distance": 7, "temp": 1, "carrier": "UA", "big": 1e400, "half": "\\ud800"}', text)

    def test_of_transactions_leave_holes_that_nobody_waits_for(self):
        self.create(self.input, self.output, partitions=3)
        payloads = self.path / "payloads"
        payloads.write_text("UA;1400;39\nAA;200;50\n")
        self.broker.tool("kafka-producer-perf-test", "--topic", self.input, "--num-records", "3000",
                         "--throughput", "-1", "--payload-file", str(payloads),
                         "--transactional-id", self.input, "--transaction-duration-ms", "20",
                         "--producer-props", f"bootstrap.servers={self.broker.address}")
        said = self.to_end("--format", "csv", "--delimiter", ";", "--columns", "carrier,distance,temp")
        self.assertIn("got 3,000 predictions from this run", said)
        records = self.read()
        self.assertEqual(len({tuple(record.value["source"].values()) for record in records}), 3000)
        self.assertEqual(len(records), 3000)
        self.assertTrue(all(record.key is None for record in records))

    def test_that_were_deleted_before_they_were_read_are_an_error_or_counted(self):
        self.create(self.input, self.output)
        row = json.dumps(some_rows(1)[0])
        self.write([row] * 20)
        self.to_end()
        self.write([row] * 10)
        self.broker.delete_before(self.input, 25)
        self.assertIn("5 offsets from 20 on were deleted before they were read", self.to_end(code=1))
        said = self.to_end("--on-data-loss", "continue")
        self.assertIn("got 5 predictions from this run; 5 offsets deleted", said)

    def test_from_now_on_are_those_that_come_after_the_first_start(self):
        self.create(self.input, self.output)
        rows = some_rows(4)
        self.write_keyed(rows[:2])
        self.to_end("--from", "now")
        self.write_keyed(rows[2:])
        self.assertIn("got 2 predictions", self.to_end("--from", "now", "--with-row"))
        self.assertEqual([record.value["row"]["id"] for record in self.read()], ["2", "3"])

    def test_from_a_time_on_are_those_that_the_broker_has_got_since(self):
        self.create(self.input, self.output)
        rows = some_rows(3)
        self.write_keyed(rows[:2])
        time.sleep(1.1)
        begin = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.write_keyed(rows[2:])
        self.assertIn("got 1 prediction from", self.to_end("--from", begin, "--with-row"))
        self.assertEqual([record.value["row"]["id"] for record in self.read()], ["2"])

    def test_of_another_topic_are_scored_with_a_warning_that_names_what_there_is(self):
        self.create(self.input, self.output)
        process = self.start()
        self.wait_for_log(process, "has been read to its end")
        self.write([json.dumps({"km": i, "plane": {"id": i}}) for i in range(10)])
        self.wait_for_log(process, 'value in any of the model\'s columns ("distance", "temp", "carrier"); the first '
                                   'such row has "km", "plane.id" instead')

    def test_that_come_alone_are_answered_at_once_and_ctrl_c_loses_none(self):
        self.create(self.input, self.output)
        process = self.start("--transaction-interval", "60")
        self.wait_for_log(process, "has been read to its end")
        self.write([json.dumps(row) for row in some_rows(3)])
        end = time.monotonic() + topology.PATIENCE
        while not self.read():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.1)
        self.write([json.dumps(row) for row in some_rows(3)])
        while self.broker.count_uncommitted(self.output) < 6:  # a transaction has them
            self.assertLess(time.monotonic(), end)
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(topology.PATIENCE), 130)
        self.assertIn("stopped: ", process.log.read_text())
        self.assertEqual(len(self.read()), 6)


class Outputs(OnABroker):
    """What refuses predictions, or is not there any more."""

    def create_output(self, *config):
        self.create(self.input)
        self.broker.create(self.output, 1, *config)

    def assert_refused(self, *parts):
        """Ends at each start, with what is to be done; nothing is written."""
        for _ in range(2):
            said = self.to_end(code=1)
            for part in (f"topic {self.output}", *parts):
                self.assertIn(part, said)
        self.assertEqual(self.read(), [])

    def test_that_take_no_such_time_name_the_record_and_the_setting(self):
        self.create_output("message.timestamp.before.max.ms=1000")
        self.write([json.dumps(row) for row in some_rows(3)])
        time.sleep(1.5)
        self.write([json.dumps(row) for row in some_rows(3)])
        self.assert_refused("message.timestamp.before.max.ms", "message.timestamp.type=LogAppendTime",
                            f"{self.input} [0] offset 0")

    def test_that_are_compacted_name_the_record_without_a_key(self):
        self.create_output("cleanup.policy=compact")
        row = json.dumps(some_rows(1)[0])
        self.write([f"{key}|{row}" for key in range(2)], "-K", "|")
        self.write([row])
        self.write([f"{key}|{row}" for key in range(2)], "-K", "|")
        self.assert_refused("cleanup.policy", f"{self.input} [0] offset 2 has no key")

    def test_that_take_small_records_only_name_the_largest(self):
        self.create_output("max.message.bytes=2000", "compression.type=uncompressed")
        draw = random.Random(5)
        rows = some_rows(3)
        rows[1]["note"] = "".join(draw.choice("0123456789abcdefghijklmnop") for _ in range(5000))
        self.write([json.dumps(row) for row in rows])
        said = self.to_end("--with-row", code=1)
        for part in (f"topic {self.output}", "max.message.bytes", f"{self.input} [0] offset 1"):
            self.assertIn(part, said)

    def test_that_are_deleted_end_the_run_with_their_name(self):
        self.create_output()
        process = self.start()
        self.wait_for_log(process, "has been read to its end")
        self.broker.delete(self.output)
        self.write([json.dumps(row) for row in some_rows(3)])
        begin = time.monotonic()
        self.assertEqual(process.wait(topology.PATIENCE), 1, process.log.read_text())
        self.assertLess(time.monotonic() - begin, 40)
        said = process.log.read_text()
        self.assertIn(f"topic '{self.output}' is gone", said)
        self.assertIn("start Predictor again", said)
        self.assertNotIn("coordinates", said)
        self.assertNotIn("--job", said)
        # As it was told.
        self.create(self.output)
        self.assertIn("got 3 predictions", self.to_end())


class Two(OnABroker):
    def test_of_a_group_are_one_and_the_first_ends(self):
        self.create(self.input, self.output)
        rows = some_rows(200)
        self.write_keyed(rows[:100])
        first = self.start("--with-row")
        self.wait_for_log(first, "has been read to its end")
        second = self.start("--with-row")
        self.wait_for_log(second, "has been read to its end")
        self.write_keyed(rows[100:])
        self.assertEqual(first.wait(topology.PATIENCE), 4, first.log.read_text())
        self.assertIn("another Predictor of the group", first.log.read_text())
        second.send_signal(signal.SIGTERM)
        self.assertEqual(second.wait(topology.PATIENCE), 130)
        self.to_end("--with-row")
        self.assert_each_once(self.read(), rows)

    def test_of_two_groups_score_each_record_each(self):
        self.create(self.input, self.output)
        self.write_keyed(some_rows(5))
        self.to_end("--group", "a")
        self.to_end("--group", "b", "--quiet")
        self.assertEqual(len(self.read()), 10)
        groups = self.broker.tool("kafka-consumer-groups", "--describe", "--group", "a")
        self.assertRegex(groups, rf"{self.input}\s+0\s+5\s+5\s+0")


if __name__ == "__main__":
    topology.main()
