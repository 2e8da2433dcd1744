"""Records of clients that we did not write (confluent-kafka, fastavro, kcat), in Avro and in JSON, with a
schema registry and without one, through TopicSource on a real broker."""

import csv
import datetime
import decimal
import io
import json
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import threading
import time
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import confluent_kafka  # noqa: E402
import fastavro  # noqa: E402
import schema_registry  # noqa: E402
import test_topic_source  # noqa: E402
import topology  # noqa: E402
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient  # noqa: E402
from confluent_kafka.schema_registry.avro import AvroSerializer  # noqa: E402
from confluent_kafka.schema_registry.json_schema import JSONSerializer  # noqa: E402
from confluent_kafka.serialization import MessageField, SerializationContext  # noqa: E402

ROWS = 8_001
# A folder of Apicurio Registry (scripts/lib/registry.sh), or the URL of a registry that takes new subjects.
APICURIO = os.environ.get("MILLRACE_APICURIO")
REAL_REGISTRY = os.environ.get("MILLRACE_SCHEMA_REGISTRY")
FEATURES = [
    "--label", "verdict", "--classes", "low,middle,high",
    "--numeric", "item.price,item.weight,paid", "--booleans", "paid", "--time-features", "at,born",
    "--categorical", "shop.name,shop.name*shop.day", "--text", "said.words",
    "--categorical-buckets", "64", "--text-buckets", "64",
]  # fmt: skip
# The same of a table that has each feature in a column of its own.
PLAIN_FEATURES = [
    "--label", "verdict", "--classes", "low,middle,high",
    "--numeric", "item.price,item.weight,paid,at.days,born.days",
    "--categorical", "shop.name,shop.name*shop.day,at.hour,at.weekday,at.month,born.hour,born.weekday,"
    "born.month",
    "--text", "said.words", "--categorical-buckets", "64", "--text-buckets", "64",
]  # fmt: skip
NUMBERS = ["--label", "late", "--numeric", "x", "--classes", "no,yes"]

FIELDS = [
    {"name": "verdict", "type": {"type": "enum", "name": "Verdict",
                                 "symbols": ["low", "middle", "high"]}},
    {"name": "item", "type": {"type": "record", "name": "Item", "fields": [
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12,
                                   "scale": 2}},
        {"name": "weight", "type": "double"}]}},
    {"name": "shop", "type": ["null", {"type": "map", "values": "string"}]},
    {"name": "said", "type": {"type": "record", "name": "Said", "fields": [
        {"name": "words", "type": ["null", "string"]}]}},
    {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
    {"name": "born", "type": {"type": "int", "logicalType": "date"}},
    {"name": "paid", "type": "boolean"},
]  # fmt: skip


def schema(fields):
    return {"type": "record", "name": "Order", "namespace": "shop.orders", "fields": fields}


FIRST = schema(FIELDS)
# As it is later: in another order, with columns that nobody asked for.
SECOND = schema([
    {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}, "default": []},
    *reversed(FIELDS),
    {"name": "previous", "type": ["null", "Order"], "default": None},
])  # fmt: skip
# With types that have schemas of their own in the registry, one of which names the other.
PRICE = {"type": "fixed", "name": "shop.money.Price", "size": 8, "logicalType": "decimal",
         "precision": 12, "scale": 2}  # fmt: skip
ITEM = {"type": "record", "name": "Item", "namespace": "shop.orders", "fields": [
    {"name": "weight", "type": "double"}, {"name": "price", "type": "shop.money.Price"}]}  # fmt: skip
THIRD = schema([{**field, "type": "shop.orders.Item"} if field["name"] == "item" else field
                for field in FIELDS])  # fmt: skip
SMALL = {"type": "record", "name": "Small", "fields": [
    {"name": "late", "type": {"type": "enum", "name": "Late", "symbols": ["no", "yes"]}},
    {"name": "x", "type": ["null", "float"]}]}  # fmt: skip

# A row, and the label that comes later.
ROW = {"type": "record", "name": "Row", "fields": [
    {"name": "id", "type": "string"}, {"name": "x", "type": "double"}]}  # fmt: skip
LABEL = {"type": "record", "name": "Label", "fields": [
    {"name": "late", "type": {"type": "enum", "name": "Late", "symbols": ["no", "yes"]}},
    {"name": "id", "type": "string"}]}  # fmt: skip
SMALL_IN_JSON = {"title": "Small", "type": "object", "required": ["late"], "properties": {
    "late": {"enum": ["no", "yes"]}, "x": {"type": "number"}}}  # fmt: skip


def parts_of(time):
    """By the calendar, as PLAIN_FEATURES has them; of the time's own zone."""
    if time is None:
        return ["", "", "", ""]
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    return [time.hour, time.isoweekday(), time.month, (time - epoch) / datetime.timedelta(days=1)]


def write_orders(path, rows):
    """Rows as a plain table has them; returns them as Python has them."""
    plain = path.with_suffix(".plain.csv")
    topology.write_csv(plain, rows)
    draw, orders = random.Random(3), []
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    with open(plain, newline="", encoding="utf-8") as source, \
            open(path, "w", newline="", encoding="utf-8") as file:  # fmt: skip
        out = csv.writer(file)
        times = [f"{time}.{part}" for time in ("at", "born")
                 for part in ("hour", "weekday", "month", "days")]  # fmt: skip
        out.writerow(["verdict", "item.price", "item.weight", "shop.name", "shop.day",
                      "said.words", "paid", *times])
        for row in csv.DictReader(source):
            at = epoch + datetime.timedelta(milliseconds=draw.randrange(-(2**40), 2**41))
            born = epoch + datetime.timedelta(days=draw.randrange(-20_000, 20_000))
            paid, at = draw.random() < 0.5, None if draw.random() < 0.1 else at
            out.writerow([row["verdict"], row["price"], row["weight"], row["shop"], row["day"],
                          row["words"], int(paid), *parts_of(at), *parts_of(born)])
            orders.append({
                "verdict": row["verdict"], "shop": {"name": row["shop"], "day": row["day"]},
                "item": {"price": decimal.Decimal(row["price"]), "weight": float(row["weight"])},
                "said": {"words": row["words"]}, "at": at, "born": born.date(), "paid": paid,
                "tags": [row["shop"], None],
            })  # fmt: skip
            if len(orders) > 1 and draw.random() < 0.2:
                orders[-1]["previous"] = orders[-2] | {"previous": None}
    return orders


class OnABroker(test_topic_source.OnABroker):
    def registry(self, **options):
        registry = schema_registry.Registry(**options).start()
        self.addCleanup(registry.stop)
        return registry

    def producer(self, **settings):
        return confluent_kafka.Producer({"bootstrap.servers": self.broker.address, **settings})

    def send(self, topic, values, partition=0):
        """partition: None for those that the client chooses."""
        producer, where = self.producer(), {} if partition is None else {"partition": partition}
        for value in values:
            producer.produce(topic, value, **where)
        self.assertEqual(producer.flush(60), 0)

    def serializer(self, registry, topic, written, *references):
        """Of a client that we did not write, which registers the schema; references: the schemas whose
        types it names, of which each may name those before it."""
        client, known = SchemaRegistryClient({"url": registry.url}), []
        for name, each in references:
            client.register_schema(f"{name}/value", Schema(json.dumps(each), "AVRO", list(known)))
            known.append(SchemaReference(name, f"{name}/value", 1))
        serialize = AvroSerializer(client, Schema(json.dumps(written), "AVRO", known))
        context = SerializationContext(topic, MessageField.VALUE)
        return lambda row: serialize(row, context)

    def end(self, job):
        """What has come is all: the stream may end."""
        job.kill("producer")
        job.commands["producer"].append("--until-end")
        job.start("producer")

    def run_to_the_end(self, job, code=0):
        job.start("producer")
        self.assertEqual(job.wait("producer"), code, job.log("producer"))
        return job.said("producer")


class Avro(OnABroker):
    def test_is_learnt_as_the_same_rows_of_a_file_whoever_is_away_or_killed(self):
        data = self.path / "orders.csv"
        orders = write_orders(data, ROWS)
        topic, registry = self.topic(), self.registry()
        first = self.serializer(registry, topic, FIRST)
        second = self.serializer(registry, topic, SECOND)
        third = self.serializer(registry, topic, THIRD, ("shop.money.Price", PRICE),
                                ("shop.orders.Item", ITEM))
        half, most = ROWS // 2, ROWS * 3 // 4
        values = [*map(first, orders[:half]), *map(second, orders[half:most]),
                  *map(third, orders[most:])]
        self.send(topic, values[:500])
        job = self.job(topic, ["--rows-per-turn", "5", "--format", "avro", "--schema-registry",
                               registry.url], data=data, features=FEATURES).start()  # fmt: skip
        self.until_rows(job, 500)
        registry.stop()
        writer = threading.Thread(target=self.send, args=(topic, values[500:]))
        writer.start()
        writer.join()
        # The first half needs nobody; the second waits, and a source that is started now, too.
        self.until_rows(job, half)
        job.wait_for_log("producer", f"the schema registry at {registry.url} does not answer")
        self.disturb(job, ["producer", "worker0", "producer"], seed=5, pause=(0.3, 1.0))
        job.wait_for_log("producer", "records wait until it does")
        registry.start()
        job.wait_for_log("producer", "the schema registry answers again")
        self.disturb(job, ["producer", "server", "worker1", "producer"], seed=6, pause=(0.3, 1.0))
        self.end(job)
        job.wait_all()
        self.assertIn(f"holds {ROWS:,} rows", job.log("producer"))
        self.assertNotIn("could not be used", job.log("producer"))
        job.features = PLAIN_FEATURES
        weights, _ = job.reference()
        self.assertEqual(job.weights.read_bytes(), weights)
        summary = job.summary()
        self.assertEqual(summary["rows_trained"], ROWS)
        self.assertEqual(summary["progressive"]["rows"], ROWS)

    def test_without_a_registry_of_seven_partitions_that_were_compacted_is_counted_once(self):
        topic = self.topic(7, "cleanup.policy=compact", "segment.ms=100",
                           "min.cleanable.dirty.ratio=0.01", "delete.retention.ms=600000")
        producer, draw = self.producer(), random.Random(4)

        def write(rows, tombstones=()):
            for i in range(rows):
                value = io.BytesIO()
                fastavro.schemaless_writer(value, SMALL, {"late": draw.choice(["no", "yes"]),
                                                          "x": draw.choice([None, i / 8])})
                producer.produce(topic, value.getvalue(), key=f"key-{draw.randrange(rows // 3)}")
            for key in tombstones:
                producer.produce(topic, None, key=key)
            self.assertEqual(producer.flush(60), 0)

        write(2100, ["key-1", "key-2", "key-3"])
        deadline = time.monotonic() + topology.PATIENCE
        while True:
            time.sleep(1)  # a segment is closed when another record comes
            write(70)
            records, end = self.count(topic)
            if len(records) < end - 500:
                break
            self.assertLess(time.monotonic(), deadline, "the topic was not compacted")
        self.broker.tool("kafka-configs", "--alter", "--entity-type", "topics", "--entity-name", topic,
                         "--add-config", "cleanup.policy=delete,retention.ms=-1")
        records, _ = self.count(topic)
        file = self.path / "small.avsc"
        file.write_text(json.dumps(SMALL))
        job = self.job(topic, ["--format", "avro", "--avro-schema", file, "--until-end"],
                       features=NUMBERS)
        self.disturb_until_it_ends(job)
        self.assertEqual(self.count(topic)[0], records, "the topic was compacted meanwhile")
        rows = sum(value is not None for value in records)
        self.assertIn(f"holds {rows:,} rows", job.log("producer"))
        self.assertNotIn("could not be used", job.log("producer"))

    def count(self, topic):
        """The values of all records that are there, and the sum of the partitions' ends."""
        consumer = confluent_kafka.Consumer({
            "bootstrap.servers": self.broker.address, "group.id": "count",
            "enable.auto.commit": False, "enable.partition.eof": True})  # fmt: skip
        values, ended, end = [], 0, 0
        consumer.assign([confluent_kafka.TopicPartition(topic, i, 0) for i in range(7)])
        while ended < 7:
            message = consumer.poll(30)
            self.assertIsNotNone(message)
            if message.error() is None:
                values.append(message.value())
            else:
                self.assertEqual(message.error().code(), confluent_kafka.KafkaError._PARTITION_EOF)
                ended, end = ended + 1, end + message.offset()
        consumer.close()
        return values, end

    def disturb_until_it_ends(self, job):
        job.start("producer")
        self.disturb(job, ["producer"] * 3, seed=7, pause=(0.2, 0.8))
        self.assertEqual(job.wait("producer"), 0, job.log("producer"))


class Records(OnABroker):
    def values(self, registry):
        known = registry.add(json.dumps(SMALL))
        split = registry.add(json.dumps(SMALL), references=[
            {"name": "x", "subject": "x", "version": 1}])  # fmt: skip
        body = bytes([2, 2]) + struct.pack("<f", 1.5)
        head = [struct.pack(">bI", 0, schema_id) for schema_id in (known, split, 99, 2**31)]
        return [head[0] + body, head[1] + body, head[2] + body, head[3] + body, b'{"late": "no"}',
                head[0] + body[:-1], head[0] + body + b"!"]  # fmt: skip

    def test_that_no_usable_schema_has_go_to_dead_letter_with_the_reason(self):
        registry, topic = self.registry(user="reader:secret"), self.topic()
        user = self.path / "user"
        user.write_text("reader:secret\n")
        self.send(topic, self.values(registry))
        job = self.job(topic, ["--format", "avro", "--schema-registry", registry.url + "/",
                               "--schema-registry-user-file", user, "--until-end"],
                       features=NUMBERS)  # fmt: skip
        said = self.run_to_the_end(job)
        self.assertIn("holds 1 rows, 1 of them from this run; 6 records could not be used", said)
        self.assertIn("schema 2: it refers to version 1 of the subject 'x', which the schema registry", said)
        self.assertIn("; its records go to dead-letter", said)
        self.assertNotIn("secret", said)
        letters = self.letters(job, 6)
        for reason in (b"schema 99: the schema registry has no such schema", b"refers to version 1 of",
                       b"schema 2147483648: no registry has ids above",
                       b"no schema registry's header", b"schema 1: malformed Avro at byte 2",
                       b"more bytes than its schema has"):
            self.assertIn(reason, letters)
        self.assertEqual(registry.asked.count(("GET /schemas/ids/1", 200)), 1)

    def test_are_kept_when_the_registry_does_not_let_the_source_in_or_is_none(self):
        registry, topic = self.registry(user="reader:secret"), self.topic()
        self.send(topic, self.values(registry)[:1])
        flags = ["--format", "avro", "--schema-registry", registry.url, "--until-end"]
        job = self.job(topic, flags, features=NUMBERS)
        said = self.run_to_the_end(job, code=1)
        self.assertIn("answers with the status 401: check --schema-registry-user-file", said)
        user = self.path / "user"
        user.write_text("reader:secret\n")
        job.commands["producer"] += ["--schema-registry-user-file", user]
        url = job.commands["producer"].index(registry.url)
        job.commands["producer"][url] = registry.url + "/elsewhere"
        said = self.run_to_the_end(job, code=1)
        self.assertIn("the status 404, as none does to GET /schemas/ids/1: check --schema", said)
        job.commands["producer"][url] = registry.url
        self.assertIn("holds 1 rows, 1 of them from this run", self.run_to_the_end(job))

    def test_come_over_tls_from_a_registry_whose_certificate_is_known(self):
        pem, topic = self.path / "registry.pem", self.topic()
        topology.make_certificate(pem, self.path / "ca.pem", "IP:127.0.0.1")
        with open(pem, "a", encoding="utf-8") as file:
            file.write((self.path / "ca.pem").read_text())
        registry = self.registry(certificate=pem)
        self.send(topic, self.values(registry)[:1])
        job = self.job(topic, ["--format", "avro", "--schema-registry", registry.url, "--until-end"],
                       features=NUMBERS)
        said = self.run_to_the_end(job, code=1)
        self.assertIn("cannot be asked: SSL certificate problem", said)
        self.assertIn("check --schema-registry, and --schema-registry-ca", said)
        job.commands["producer"] += ["--schema-registry-ca", self.path / "ca.pem"]
        self.assertIn("holds 1 rows, 1 of them from this run", self.run_to_the_end(job))

    def test_wait_for_a_registry_that_is_away_while_the_classes_are_looked_for(self):
        registry, topic = self.registry(), self.topic()
        written = self.serializer(registry, topic, SMALL)
        self.send(topic, [written({"late": late, "x": 1.0}) for late in ("no", "yes", "no")])
        registry.stop()
        job = self.job(topic, ["--format", "avro", "--schema-registry", registry.url, "--until-end"],
                       features=["--label", "late", "--numeric", "x"])
        job.start("producer")
        job.wait_for_log("producer", "records wait until it does")
        self.assertEqual(job.interrupt("producer"), 130)
        job.start("producer")
        job.wait_for_log("producer", "records wait until it does")
        registry.start()
        self.assertEqual(job.wait("producer"), 0, job.log("producer"))
        self.assertIn("holds 3 rows, 3 of them from this run", job.said("producer"))

    def test_of_json_may_have_the_header_of_a_registry(self):
        topic = self.topic()
        head = struct.pack(">bI", 0, 7)
        self.send(topic, [head + b'{"late": "no", "x": 1}', b'{"late": "yes", "x": 2}', head + b"{"])
        job = self.job(topic, ["--until-end"], features=NUMBERS)
        said = self.run_to_the_end(job)
        self.assertIn("holds 2 rows, 2 of them from this run; 1 records could not be used", said)
        self.assertIn(b"schema 7: malformed JSON", self.letters(job, 1))

    def test_of_avro_that_kcat_writes_are_rows(self):
        topic, file = self.topic(3), self.path / "small.avsc"
        file.write_text(json.dumps(SMALL))
        bodies = []
        for i in range(60):
            bodies.append(self.path / f"body-{i}")
            with open(bodies[-1], "wb") as out:
                fastavro.schemaless_writer(out, SMALL, {"late": ("no", "yes")[i % 2], "x": i / 8})
        subprocess.run(["kcat", "-P", "-b", self.broker.address, "-t", topic, *bodies], check=True,
                       timeout=topology.PATIENCE)  # each file is a record
        job = self.job(topic, ["--format", "avro", "--avro-schema", file, "--until-end"], features=NUMBERS)
        self.assertIn("holds 60 rows, 60 of them from this run", self.run_to_the_end(job))

    def test_of_a_transaction_that_was_aborted_are_neither_rows_nor_predictions(self):
        topic, scored = self.topic(3), self.topic(1, suffix="-scored")
        producer = self.producer(**{"transactional.id": "foreign"})
        producer.init_transactions(60)

        def write(late, end):
            producer.begin_transaction()
            for i in range(100):
                producer.produce(topic, json.dumps({"late": late, "distance": i, "temp": 1, "carrier": "UA"}))
            self.assertEqual(producer.flush(60), 0)  # else those of an aborted one are never sent
            end(60)

        for _ in range(3):
            write("yes", producer.abort_transaction)
            write("no", producer.commit_transaction)
        write("yes", producer.abort_transaction)
        job = self.job(topic, ["--until-end"], features=[
            "--label", "late", "--numeric", "distance", "--classes", "no,yes"])  # fmt: skip
        job.start()
        job.wait_all()
        summary = job.summary()
        self.assertEqual(summary["rows_trained"], 300)
        self.assertEqual(summary["progressive"]["rows"], 300)
        self.assertGreater(summary["progressive"]["accuracy"], 0.9, "a row of an aborted transaction was learnt")
        done = subprocess.run([topology.PROGRAMS / "Predictor", "--model",
                               topology.ROOT / "tests" / "apps" / "model", "--brokers", self.broker.address,
                               "--input-topic", topic, "--output-topic", scored, "--until-end"],
                              check=True, capture_output=True, text=True, timeout=topology.PATIENCE)
        self.assertIn("got 300 predictions from this run", done.stderr)
        self.assertEqual(self.broker.records(scored, 300, topology.PATIENCE).count(b'"class":'), 300)

    def test_behind_a_transaction_that_is_open_are_waited_for(self):
        topic, scored = self.topic(), self.topic(1, suffix="-scored")
        foreign = self.producer(**{"transactional.id": "open"})
        foreign.init_transactions(60)
        rows = [json.dumps({"late": "no", "distance": i, "temp": 1, "carrier": "UA"}) for i in range(10)]
        self.send(topic, rows)
        foreign.begin_transaction()
        for row in rows:
            foreign.produce(topic, row)
        self.assertEqual(foreign.flush(60), 0)
        self.send(topic, rows)
        job = self.job(topic, ["--until-end"], features=[
            "--label", "late", "--numeric", "distance", "--classes", "no,yes"])  # fmt: skip
        job.commands["predictor"] = [
            topology.PROGRAMS / "Predictor", "--model", topology.ROOT / "tests" / "apps" / "model", "--brokers",
            self.broker.address, "--input-topic", topic, "--output-topic", scored, "--until-end"]  # fmt: skip
        job.start("producer", "predictor")
        for program in ("producer", "predictor"):
            # (Behind its ten records there are ten others.)
            job.wait_for_log(program, f"{topic} [0]: 20 offsets from 10 on belong to a transaction that is open")
        foreign.commit_transaction(60)
        for program in ("producer", "predictor"):
            self.assertEqual(job.wait(program), 0, job.log(program))
        self.assertIn("holds 30 rows, 30 of them from this run", job.said("producer"))
        self.assertIn("got 30 predictions from this run", job.said("predictor"))

    def test_most_of_which_are_no_rows_are_warned_of_with_the_most_frequent_reason(self):
        topic = self.topic()
        self.send(topic, [json.dumps({"late": "no", "x": i if i % 2 else f"far {i}"}) for i in range(1000)])
        job = self.job(topic, ["--until-end"], features=NUMBERS)
        said = self.run_to_the_end(job)
        self.assertIn(f"{topic}: 500 of the first 1,000 records are no rows; the most frequent reason (500): ", said)

    def test_that_kcat_writes_with_keys_and_headers_are_rows(self):
        topic = self.topic(3)
        lines = "".join(f'key-{i % 10}|{{"late": "{("no", "yes")[i % 2]}", "x": {i}}}\n'
                        for i in range(1000))
        subprocess.run(["kcat", "-P", "-b", self.broker.address, "-t", topic, "-K", "|", "-H", "a=b",
                        "-z", "zstd"], input=lines, text=True, check=True, timeout=topology.PATIENCE)
        job = self.job(topic, ["--until-end"], features=NUMBERS)
        self.assertIn("holds 1,000 rows, 1,000 of them from this run", self.run_to_the_end(job))


class LateLabels(OnABroker):
    def test_are_joined_with_rows_of_another_schema_though_the_source_is_killed(self):
        registry, topic, labels = self.registry(), self.topic(3), self.topic(2, suffix="-labels")
        row = self.serializer(registry, topic, ROW)
        label = self.serializer(registry, labels, LABEL)
        count, draw = 1500, random.Random(5)
        rows = [{"id": f"r{i}", "x": draw.random()} for i in range(count)]
        labelled = [each for each in rows if draw.random() < 0.9]
        job = self.job(topic, ["--labels-from", labels, "--join-key", "id", "--join-window", "600", "--format",
                               "avro", "--schema-registry", registry.url], features=NUMBERS)  # fmt: skip
        self.send(topic, map(row, rows[:500]), None)
        job.start()
        writer = threading.Thread(target=lambda: (
            self.send(topic, map(row, rows[500:]), None),
            self.send(labels, [label({"id": each["id"], "late": "yes" if each["x"] < 0.5 else "no"})
                               for each in draw.sample(labelled, len(labelled))], None)))  # fmt: skip
        writer.start()
        self.disturb(job, ["producer"] * 3, seed=8, pause=(0.3, 1.0))
        writer.join()
        self.end(job)
        job.wait_all()
        self.assertIn(f"of {labels}: {len(labelled):,} rows have a label; {count - len(labelled)} without one "
                      "were left out", job.said("producer"))
        summary = job.summary()
        self.assertEqual(summary["rows_trained"], len(labelled))
        self.assertGreater(summary["progressive"]["accuracy"], 0.8)


@unittest.skipUnless(APICURIO or REAL_REGISTRY,
                     "neither MILLRACE_APICURIO=FOLDER nor MILLRACE_SCHEMA_REGISTRY=URL names one")  # fmt: skip
class ARegistryThatWeDidNotWrite(OnABroker):
    def setUp(self):
        super().setUp()
        self.url = REAL_REGISTRY or self.start_apicurio()

    def start_apicurio(self):
        log = self.path / "registry.log"
        with open(log, "wb") as output:
            registry = subprocess.Popen(
                ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true",
                 "-Dquarkus.http.host=127.0.0.1", "-Dquarkus.http.port=0", "-jar", f"{APICURIO}/registry.jar"],
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)  # fmt: skip
        self.addCleanup(registry.wait)
        self.addCleanup(registry.kill)
        limit = time.monotonic() + topology.PATIENCE
        while not (found := re.search(r"Listening on: (http://\S+)", log.read_text())):
            self.assertIsNone(registry.poll(), log.read_text())
            self.assertLess(time.monotonic(), limit, log.read_text())
            time.sleep(0.1)
        return f"{found[1]}/apis/ccompat/v7"

    def test_gives_schemas_and_those_that_they_refer_to_and_knows_no_others(self):
        orders = write_orders(self.path / "orders.csv", 300)
        topic, registry = self.topic(), types.SimpleNamespace(url=self.url)
        first = self.serializer(registry, topic, FIRST)
        third = self.serializer(registry, topic, THIRD, ("shop.money.Price", PRICE),
                                ("shop.orders.Item", ITEM))
        unknown = struct.pack(">bI", 0, 2**31 - 2) + b"x"
        self.send(topic, [*map(first, orders[:150]), unknown, *map(third, orders[150:])])
        job = self.job(topic, ["--format", "avro", "--schema-registry", registry.url, "--until-end"],
                       features=FEATURES)
        said = self.run_to_the_end(job)
        self.assertIn("holds 300 rows, 300 of them from this run; 1 records could not be used", said)
        self.assertIn(b"the schema registry has no such schema", self.letters(job, 1))

    def test_has_the_schemas_of_json_that_another_client_writes_whoever_is_killed(self):
        topic, client = self.topic(7), SchemaRegistryClient({"url": self.url})
        serialize = JSONSerializer(json.dumps(SMALL_IN_JSON), client)
        context = SerializationContext(topic, MessageField.VALUE)
        rows = [{"late": ("no", "yes")[i % 3 == 0], "x": i % 3} for i in range(4000)]
        values = [serialize(row, context) for row in rows]
        self.assertEqual(values[0][0], 0, "no header of a registry")
        job = self.job(topic, ["--rows-per-turn", "5"], features=NUMBERS)
        self.send(topic, values[:2000], None)
        job.start()
        writer = threading.Thread(target=self.send, args=(topic, values[2000:], None))
        writer.start()
        self.disturb(job, ["producer", "server", "worker0", "producer", "worker1"], seed=9, pause=(0.3, 1.0))
        writer.join()
        self.end(job)
        job.wait_all()
        self.assertNotIn("could not be used", job.log("producer"))
        summary = job.summary()
        self.assertEqual(summary["rows_trained"], 4000)
        self.assertEqual(summary["progressive"]["rows"], 4000)


if __name__ == "__main__":
    topology.main()
