"""What the README's tour and the pages of docs/ tell a reader to type, as it stands there: with a broker at
localhost:9092, Predictor at localhost:8080, and pkill, so in namespaces of the test's own."""

import csv
import gzip
import io
import json
import os
import pathlib
import random
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import confluent_kafka  # noqa: E402
import pages  # noqa: E402
import schema_registry  # noqa: E402
import topology  # noqa: E402
from confluent_kafka.schema_registry import SchemaRegistryClient  # noqa: E402
from confluent_kafka.schema_registry.avro import AvroSerializer  # noqa: E402
from confluent_kafka.serialization import MessageField, SerializationContext  # noqa: E402

PAGES = pages.Pages("README.md", *(f"docs/{name}.md" for name in (
    "avro", "compare-models", "files", "follow-a-job", "late-labels", "model-format", "predict", "predict-http",
    "score-topics", "topic-source")))  # fmt: skip
ROWS = 60_000
DELAYS = {"type": "record", "name": "Departure", "fields": [
    {"name": "late", "type": {"type": "enum", "name": "Late", "symbols": ["no", "yes"]}},
    {"name": "distance", "type": "double"}]}  # fmt: skip
FLIGHTS = {"type": "record", "name": "Flown", "fields": [
    {"name": "late", "type": {"type": "enum", "name": "Late", "symbols": ["no", "yes"]}},
    {"name": "flight", "type": {"type": "record", "name": "Flight", "fields": [
        {"name": "distance", "type": "double"}]}},
    {"name": "carrier", "type": "string"}]}  # fmt: skip
NEW = {"type": "record", "name": "New", "fields": [
    {"name": "distance", "type": "double"}, {"name": "carrier", "type": "string"}]}  # fmt: skip


def flights(count, seed=1):
    """Rows of the columns that the pages speak of: short flights are late, and more of UA's."""
    draw = random.Random(seed)
    for flight in range(count):
        distance, carrier = draw.randrange(100, 3000), draw.choice(["UA", "AA", "B6", "DL"])
        late = distance < 1400 + 400 * (carrier == "UA") + draw.gauss(0, 200)
        yield {"late": "yes" if late else "no", "distance": distance, "carrier": carrier, "flight": flight,
               "hour_flights": draw.randrange(90), "temp": draw.randrange(10, 100),
               "wind_speed": round(draw.uniform(0, 30), 1), "visib": draw.randrange(11),
               "dest": draw.choice(["IAH", "LAX", "BOS"]), "hour": draw.randrange(5, 24),
               "weekday": draw.randrange(7), "origin": draw.choice(["EWR", "JFK", "LGA"])}  # fmt: skip


def write_flights(path, count, seed=1, open_file=open):
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = list(flights(count, seed))
    with open_file(path, "wt", newline="", encoding="utf-8") as file:
        out = csv.DictWriter(file, rows[0])
        out.writeheader()
        out.writerows(rows)
    return rows


class ReadersOfThePages(unittest.TestCase):
    def setUp(self):
        folder = topology.temporary_folder()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        self.broker = topology.Broker(self.path / "kafka", options=["--port", "9092"]).start()
        self.addCleanup(self.broker.discard)
        self.terminals = pages.Terminals(PAGES, self.path)
        self.addCleanup(self.terminals.close)
        self.run_page, self.begin = self.terminals.run, self.terminals.begin
        self.make_kafkas_tools()

    def make_kafkas_tools(self):
        """As they are called in a distribution of Kafka, on the path."""
        (self.path / "bin").mkdir()
        for name in ("kafka-console-consumer", "kafka-console-producer", "kafka-topics"):
            tool = self.path / "bin" / name
            tool.write_text(f'#!/bin/sh\nexec "{topology.ROOT}/scripts/kafka" --dir "{self.path}/kafka" tool '
                            f'{name} "$@"\n')
            tool.chmod(0o755)

    def link(self, *names):
        """Of the project, where the reader stands."""
        for name in names:
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            (self.path / name).symlink_to(topology.ROOT / name)

    def figures(self, job):
        # (Its exit code is the state of the job, which may not be there yet.)
        return json.loads(self.terminals.type(f"Watch --job {job} --once --json 2>/dev/null || true") or "{}")

    def wait_for_rows(self, job, rows):
        end = time.monotonic() + topology.PATIENCE
        while (learnt := self.figures(job).get("rows_trained") or 0) < rows:
            self.assertLess(time.monotonic(), end, f"{learnt} of {rows} rows\n{self.terminals.said()}")
            time.sleep(0.2)

    def begin_job(self, *flags, server="--snapshot-dir snapshots"):
        """Its server and its worker, which no page names in this place. (Of a stream without an end a job
        learns from all rows that have come if it is no sequential one.)"""
        return [self.terminals.begin_typed(" ".join([program, *flags, *more]))
                for program, more in (("ServerApp", ["--consistency bounded:2", server]),
                                      ("WorkerApp", ["--data-dir worker"]))]  # fmt: skip

    def test_of_the_tour_see_a_job_that_survives_kills_and_predicts(self):
        self.link("build/venv")
        write_flights(self.path / "build/data/flights-stream.csv", ROWS)
        held_out = write_flights(self.path / "build/data/flights-heldout.csv", 200, seed=2)
        self.run_page("mkdir -p build/tour")
        server = self.begin("ServerApp --job tour")
        workers = [self.begin(f"WorkerApp --job tour --data-dir build/tour/worker-{i}") for i in (1, 2)]
        producer = self.begin("CsvProducer --job tour")
        watch = self.begin("Watch --job tour")
        # The producer at once: it is done in 20 s, and this machine may be slow.
        for program, killed in (("CsvProducer", producer), ("ServerApp", server), ("WorkerApp", workers[0])):
            producer.wait_for(" rows/s")
            self.run_page(f"pkill -9 -f '{program}.*--job tour ")
            killed.wait(-9)
            killed.again()
        for program in (producer, *workers, server, watch):
            program.wait()
        self.assertEqual(self.figures("tour")["rows_trained"], ROWS)
        self.assertRegex(self.run_page("build/venv/bin/python -c"), r"\(\d+, 2\)")
        self.run_page("Predictor --model build/tour/snapshots/tour-end/model --input")
        with open(self.path / "build/tour/scored.csv", newline="", encoding="utf-8") as file:
            scored = list(csv.DictReader(file))
        right = sum(row["predicted_late"] == row["late"] for row in scored)
        self.assertGreater(right / len(held_out), 0.8)
        self.begin("Predictor --model build/tour/snapshots/tour-end/model").wait_for("listening on 127.0.0.1:8080")
        self.assertIn('"class":', self.run_page('curl localhost:8080/predict -d \'{"distance": 1400, "hour_'))

    def test_with_a_file_of_their_own_begin_with_a_proposed_job_file(self):
        write_flights(self.path / "mine.csv.gz", 2000, open_file=gzip.open)
        self.run_page("CsvProducer --describe mine.csv.gz")
        programs = [self.begin(f"{program} --config mine.textproto") for program in ("ServerApp", "WorkerApp")]
        self.run_page("CsvProducer --config mine.textproto --label late")
        for program in programs:
            program.wait()
        figures = self.figures("mine")
        self.assertEqual(figures["rows_trained"], 2000)
        self.assertGreater(figures["progressive"]["accuracy"], figures["progressive"]["prior_accuracy"] + 0.1)

    def test_with_commas_and_stars_in_names_name_their_columns(self):
        (self.path / "named.csv").write_text('age,"height, cm",a*b,city,ratio 1:2,y\n' + "".join(
            f"{20 + i % 50},{150 + i % 40},{i % 3},c{i % 5},{i % 7},{'no' if i % 2 else 'yes'}\n" for i in range(200)))
        said = self.terminals.type("CsvProducer --job named --input named.csv --label y --features-only "
                                   + self.terminals.pages.take("--numeric 'age"))
        self.assertIn("published the job's features", said)

    def test_with_records_in_a_registrys_form_learn_from_them(self):
        registry = schema_registry.Registry(port=8081).start()
        self.addCleanup(registry.stop)
        self.send_avro("http://localhost:8081", DELAYS, [
            {"late": row["late"], "distance": row["distance"]} for row in flights(500)])  # fmt: skip
        self.begin_job("--job late")
        self.begin("TopicSource --job late --topic departures --format avro --schema-registry http:")
        self.wait_for_rows("late", 500)

    def test_with_a_registry_behind_tls_and_a_login_learn_from_its_records(self):
        self.trust_a_registry()
        (self.path / "user").write_text("reader:secret\n")
        registry = schema_registry.Registry(user="reader:secret", certificate=self.path / "registry.pem",
                                            port=8081).start()
        self.addCleanup(registry.stop)
        self.send_avro("https://reader:secret@registry:8081", FLIGHTS, [
            {"late": row["late"], "flight": {"distance": row["distance"]}, "carrier": row["carrier"]}
            for row in flights(500)])  # fmt: skip
        self.begin_job("--job late")
        self.begin("TopicSource --job late --topic departures --format avro --schema-registry https:")
        self.wait_for_rows("late", 500)

    def send_avro(self, url, schema, rows, create=True):
        serialize = AvroSerializer(SchemaRegistryClient({"url": url}), json.dumps(schema))
        context = SerializationContext("departures", MessageField.VALUE)
        if create:
            self.broker.create("departures", 3)
        producer = confluent_kafka.Producer({"bootstrap.servers": self.broker.address})
        for row in rows:
            producer.produce("departures", serialize(row, context))
        self.assertEqual(producer.flush(60), 0)

    def trust_a_registry(self):
        """The host `registry` is this one, and who signed its certificate is known, for the time of the
        test's namespaces."""
        files = {name: self.path / name for name in ("registry.pem", "ca.pem", "hosts", "bundle")}
        topology.make_certificate(files["registry.pem"], files["ca.pem"], "DNS:registry")
        with open(files["registry.pem"], "a", encoding="utf-8") as file:
            file.write(files["ca.pem"].read_text())
        files["hosts"].write_text("127.0.0.1 localhost registry\n")
        known = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
        files["bundle"].write_text(known.read_text() + files["ca.pem"].read_text())
        os.environ["SSL_CERT_FILE"] = str(files["bundle"])  # of the client that registers the schema
        self.addCleanup(os.environ.pop, "SSL_CERT_FILE")
        for file, place in (("hosts", "/etc/hosts"), ("bundle", known)):
            subprocess.run(["mount", "--bind", files[file], place], check=True)
            self.addCleanup(subprocess.run, ["umount", place], check=True)

    def test_with_a_topic_of_json_learn_from_its_records_and_predict(self):
        self.run_page("kafka-topics --bootstrap-server localhost:9092 --create --topic departures")
        (self.path / "rows.ndjson").write_text("".join(json.dumps({
            "late": row["late"], "flight": {"distance": row["distance"]}, "temp": row["temp"],
            "carrier": row["carrier"]}) + "\n" for row in flights(500)))  # fmt: skip
        self.run_page("kafka-console-producer")
        master = self.begin("MasterApp --job late --consistency eventual --snapshot-dir snapshots")
        self.begin("TopicSource --job late --topic departures --label late --numeric flight.distance,temp")
        watch = self.begin("Watch --job late")
        self.wait_for_rows("late", 500)
        self.while_rows_come("departures", (self.path / "rows.ndjson").read_text().splitlines())
        self.run_page("ServerApp --job late --snapshot-dir snapshots --export model")
        self.check_model("model", job="late")
        self.begin("Predictor --follow --job late").wait_for("the first weights of the job late are there")
        watch.wait_for("progressive: accuracy ")
        master.interrupt()

    def while_rows_come(self, topic, rows):
        """Until the test ends: a snapshot needs them."""
        done = threading.Event()

        def write():
            while not done.wait(0.3):
                self.broker.write(topic, rows)

        writer = threading.Thread(target=write)
        writer.start()
        self.addCleanup(writer.join)
        self.addCleanup(done.set)

    def test_with_bins_of_a_topics_columns_publish_their_edges_first(self):
        write_flights(self.path / "sample.csv", 300)
        self.run_page("CsvProducer --job late --input sample.csv --features-only")
        self.broker.create("departures", 3)
        self.broker.write("departures", [json.dumps({"late": row["late"], "temp": row["temp"]})
                                         for row in flights(500)])
        self.begin_job("--job late")
        self.terminals.begin_typed("TopicSource --job late --topic departures --label late --numeric temp --bins all")
        self.wait_for_rows("late", 500)

    def test_with_rows_from_now_on_learn_from_those(self):
        self.broker.create("departures", 3)
        rows = [json.dumps({"late": row["late"], "temp": row["temp"]}) for row in flights(300)]
        self.broker.write("departures", rows[:100])
        self.begin_job("--job late")
        self.begin("TopicSource --job late --topic departures --from now").wait_for("has been read to its end")
        self.broker.write("departures", rows[100:])
        self.wait_for_rows("late", 200)
        self.assertEqual(self.figures("late")["rows_sent"], 200)

    def test_with_labels_that_come_later_learn_from_the_rows_that_have_one(self):
        draw = random.Random(1)
        self.broker.create("impressions", 2)
        self.broker.create("clicks", 2)
        self.broker.write("impressions", [json.dumps({
            "impression": f"a{i}", "user": draw.randrange(50), "item": draw.randrange(20)})
            for i in range(500)])  # fmt: skip
        self.broker.write("clicks", [json.dumps({
            "impression": f"a{i}", "clicked": draw.random() < 0.3}) for i in range(500)])  # fmt: skip
        self.begin_job("--job clicks")
        self.begin("TopicSource --job clicks --topic impressions --labels-from clicks")
        self.wait_for_rows("clicks", 500)

    def test_of_the_model_export_it_from_a_job_and_predict(self):
        self.link("docs")
        streamed = write_flights(self.path / "stream.csv", 12_000)
        rows = write_flights(self.path / "rows.csv", 200, seed=5)
        columns = "--label late --classes no,yes --numeric distance --categorical carrier"
        server, worker = self.begin_job("--job flights")
        producer = self.terminals.begin_typed(f"CsvProducer --job flights --input stream.csv {columns} --rate 400")
        self.wait_for_rows("flights", 300)
        self.run_page("ServerApp --job flights --snapshot-dir snapshots --export model")
        self.check_model("model")
        self.follow_the_job()
        for program in (producer, worker, server):
            program.wait()
        self.run_page("ServerApp --from-snapshot snapshots/flights-end --export model")
        self.check_model("model", rows=len(streamed))
        for program in ("model", "onnx"):
            predicted = list(csv.DictReader(io.StringIO(self.run_page(f"python3 docs/predict_{program}.py"))))
            right = sum((float(row["yes"]) > 0.5) == (old["late"] == "yes") for row, old in zip(predicted, rows, strict=True))
            self.assertGreater(right / len(rows), 0.8, program)
        self.predict()

    def test_of_one_server_without_a_place_for_snapshots_export_its_model(self):
        write_flights(self.path / "stream.csv", 6000)
        self.begin_job("--job flights", server="")
        self.terminals.begin_typed("CsvProducer --job flights --input stream.csv --label late --classes no,yes "
                                   "--numeric distance --categorical carrier --rate 200")
        self.wait_for_rows("flights", 300)
        self.run_page("ServerApp --job flights --export model")
        self.check_model("model")

    def follow_the_job(self):
        predictor = self.begin("Predictor --follow --brokers localhost:9092 --job flights")
        predictor.wait_for("the first weights of the job flights are there")
        self.assertIn('"class":', self.run_page('curl localhost:8080/predict -d \'{"carrier": "UA", "dist'))
        self.assertIn('"job":"flights"', self.run_page("curl localhost:8080/model").replace(" ", ""))
        predictor.interrupt()

    def check_model(self, folder, rows=None, job="flights"):
        model = json.loads((self.path / folder / "model.json").read_text())
        self.assertEqual(model["job"], job)
        if rows is not None:
            self.assertEqual(int(model["progressive"]["rows"]), rows)

    def predict(self):
        """By the model of the job that has ended; also another one beside it."""
        rows = write_flights(self.path / "new.csv", 300, seed=3)
        write_flights(self.path / "old.csv", 300, seed=4)
        subprocess.run(["cp", "-r", self.path / "model", self.path / "other"], check=True)
        for more in ("", " --contributions"):
            self.run_page("Predictor --model model --input new.csv --output scored.csv" + more)
            with open(self.path / "scored.csv", newline="", encoding="utf-8") as file:
                scored = list(csv.DictReader(file))
            self.assertEqual(len(scored), len(rows))
            self.assertEqual("contribution_carrier" in scored[0], bool(more))
        self.assertIn("300", self.run_page("Predictor --model model --challenger other --input old.csv"))
        (self.path / "rows.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.over_http("Predictor --model model", "curl 'localhost:8080/predict?contributions=1'",
                       "curl localhost:8080/predict -d '[", "curl localhost:8080/predict -H")  # fmt: skip
        self.over_http("Predictor --model model --challenger other --id-column flight",
                       'curl localhost:8080/predict -d \'{"flight": 7,', "curl localhost:8080/labels",
                       "curl localhost:8080/challenger")  # fmt: skip
        self.over_tls()
        self.score_topics()

    def over_http(self, command, *questions):
        predictor = self.begin(command)
        predictor.wait_for("listening on 127.0.0.1:8080")
        for question in questions:
            self.assertNotIn('"error"', self.run_page(question))
        predictor.interrupt()

    def over_tls(self):
        topology.make_certificate(self.path / "key.pem", self.path / "cert.pem", "DNS:localhost")
        (self.path / "token").write_text("a-long-secret-of-both-sides\n")
        predictor = self.begin("Predictor --model model --listen 0.0.0.0:8443")
        predictor.wait_for("listening on 0.0.0.0:8443")
        ask = self.terminals.pages.take("curl https://HOST:8443/predict").replace("HOST", "localhost")
        self.assertIn('"class":', self.terminals.type(f"export CURL_CA_BUNDLE=cert.pem; {ask}"))
        predictor.interrupt()

    def score_topics(self):
        self.broker.create("departures", 4)
        self.broker.write("departures", [json.dumps({"distance": row["distance"], "carrier": row["carrier"]})
                                         for row in flights(100)])
        self.run_page("kafka-topics --bootstrap-server localhost:9092 --create --topic delays")
        self.assert_scored(self.begin("Predictor --model model --brokers localhost:9092 --input-topic"), 100)
        # (It stays: what it prints is looked at.)
        shown = self.begin("kafka-console-consumer")
        shown.wait_for('"probabilities":')
        registry = schema_registry.Registry(port=8081).start()
        self.addCleanup(registry.stop)
        self.send_avro("http://localhost:8081", NEW, [
            {"distance": row["distance"], "carrier": row["carrier"]} for row in flights(50)], create=False)
        self.assert_scored(self.begin("Predictor --model model --input-topic departures --output-topic delays "
                                      "--format avro"), 150)  # fmt: skip

    def assert_scored(self, predictor, count):
        self.assertEqual(self.broker.records("delays", count, topology.PATIENCE).count(b'"class":'), count, predictor.said())
        predictor.interrupt()


def tearDownModule():
    """When all tests were run: no command is left that a reader would be the first to try."""
    if len(sys.argv) == 1 and PAGES.left:
        raise AssertionError("no test runs these commands of the pages: " + "; ".join(
            f"{', '.join(places)}: {text}" for text, (_, places) in PAGES.left.items()))  # fmt: skip


if __name__ == "__main__":
    if "MILLRACE_OWN_NAMESPACES" not in os.environ:
        os.environ["MILLRACE_OWN_NAMESPACES"] = "yes"
        root = [] if os.geteuid() == 0 else ["--map-root-user"]
        os.execvp("unshare", ["unshare", *root, "--net", "--mount", "--pid", "--fork", "--kill-child",
                              "--mount-proc", sys.executable, *sys.argv])  # fmt: skip
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    topology.main()
