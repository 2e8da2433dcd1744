"""Predictor follows jobs that run on a real broker, while servers and brokers die."""

import contextlib
import http.client
import json
import pathlib
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import topology  # noqa: E402

ROWS = 12_000
PREDICTOR = topology.PROGRAMS / "Predictor"
EVENTUAL = ["--consistency", "eventual", "--batch-rows", "16"]
SEQUENTIAL = ["--consistency", "sequential", "--batch-rows", "16"]
SERVERS = {"server": [0, 2], "server1": [1]}
NEW_ROWS = [{"price": 120000.5, "weight": 0.0005, "shop": "north", "day": 3, "words": "good quick"},
            {"price": None, "weight": 0, "shop": "nowhere", "day": "", "words": ""}]  # fmt: skip


class Predictor:
    """One that answers over HTTP."""

    started = 0

    def __init__(self, folder, *words):
        Predictor.started += 1
        self.log = folder / f"predictor-{Predictor.started}.log"
        with open(self.log, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [PREDICTOR, "--listen", "127.0.0.1:0", *map(str, words)], stdout=log, stderr=log,
                stdin=subprocess.DEVNULL, cwd=folder)  # fmt: skip
        self.port = int(self.until_said("listening on 127.0.0.1:").split()[0])

    def said(self):
        return self.log.read_text(encoding="utf-8", errors="replace")

    def until_said(self, text, timeout=topology.PATIENCE):
        """What stands behind it."""
        end = time.monotonic() + timeout
        while text not in self.said():
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"'{text}' did not appear in\n{self.said()}")
            time.sleep(0.02)
        return self.said().split(text, 1)[1]

    def ask(self, method, path, body=None):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=topology.PATIENCE)) as to:
            to.request(method, path, body)
            answer = to.getresponse()
            return answer.status, answer.read().decode()

    def predict(self):
        status, text = self.ask("POST", "/predict", json.dumps(NEW_ROWS))
        if status != 200:
            raise AssertionError(text)
        return text

    def model(self):
        return json.loads(self.ask("GET", "/model")[1])

    def until(self, happened, timeout=topology.PATIENCE):
        end = time.monotonic() + timeout
        while not happened():
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"it did not happen: {self.said()}")
            time.sleep(0.05)

    def until_ready(self):
        self.until(lambda: self.ask("GET", "/readyz")[0] == 200)

    def end(self):
        self.process.kill()
        self.process.wait()


class OnABroker(topology.OnABroker):
    rows = ROWS

    def job(self, **options):
        name = self.id().rsplit(".", 1)[-1].replace("_", "-")[:60]
        folder = self.path / name
        folder.mkdir()
        options = {"data": self.data, "fed": True, **options}
        job = topology.Job(self.broker, name, folder, **options)
        for server in [name for name in job.commands if name.startswith("server")]:
            job.commands[server] += ["--snapshot-dir", job.snapshots]
        self.addCleanup(job.close)
        return job

    def follow(self, job, *words):
        predictor = Predictor(job.folder, "--follow", "--brokers", self.broker.address, "--job",
                              job.name, *words)  # fmt: skip
        self.addCleanup(predictor.end)
        return predictor

    def exported(self, job):
        return job.snapshots / f"{job.name}-end" / "model"

    def scored(self, job, *words):
        """The bytes of the file of rows, scored."""
        out = job.folder / "scored.csv"
        done = subprocess.run([PREDICTOR, *map(str, words), "--input", self.data, "--output", out],
                              cwd=job.folder, capture_output=True, text=True, check=False, timeout=topology.PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        return out.read_bytes()

    def assert_ends_as_exported(self, job, predictor):
        """Once the job has ended: predictions over HTTP, and of a file."""
        predictor.until(lambda: predictor.model().get("ended"))
        self.assertIsNone(predictor.model()["newer_model_error"])
        by_folder = Predictor(job.folder, "--model", self.exported(job))
        self.addCleanup(by_folder.end)
        self.assertEqual(predictor.predict(), by_folder.predict())
        for each in ("rows", "clock"):
            self.assertEqual(predictor.model()["model"][each], by_folder.model()["model"][each])
        self.assertEqual(
            self.scored(job, "--follow", "--brokers", self.broker.address, "--job", job.name),
            self.scored(job, "--model", self.exported(job)))  # fmt: skip


class Follow(OnABroker):
    needs_own_broker = True

    def test_a_job_is_followed_from_before_it_begins_whoever_dies_to_its_end(self):
        job = self.job(training=EVENTUAL)
        predictor = self.follow(job)
        self.assertEqual(predictor.ask("GET", "/healthz")[0], 200)
        predictor.until(lambda: "there is no job" in predictor.ask("GET", "/readyz")[1])
        for method, path in (("GET", "/readyz"), ("GET", "/model"), ("POST", "/predict")):
            self.assertEqual(predictor.ask(method, path, "{}" if method == "POST" else None)[0], 503)
        job.start().feed(0.2)
        predictor.until_ready()
        first = predictor.predict()
        job.feed(0.4)  # more to learn, however slow the predictor was
        predictor.until(lambda: predictor.predict() != first)
        # The server dies, and predictions go on by what was learnt.
        job.wait_until_it_stands()
        job.kill("server")
        last = predictor.predict()
        self.assertGreater(predictor.model()["age_seconds"], 0)
        job.start("server")
        job.feed(0.7)
        predictor.until(lambda: predictor.predict() != last)
        # So does the broker.
        job.wait_until_it_stands()
        last = predictor.predict()
        self.broker.kill()
        predictor.until(lambda: predictor.model()["newer_model_error"])
        self.assertEqual(predictor.predict(), last)
        self.assertEqual(predictor.ask("GET", "/readyz")[0], 200)
        self.broker.start()
        job.feed(1)
        job.wait_all()
        self.assert_ends_as_exported(job, predictor)
        said = predictor.said()
        # (Once more, and ever more seldom, where a broker takes long to come back.)
        self.assertIn(said.count("s old, predict:"), (1, 2, 3), said)
        self.assertIn("has ended; its last weights predict", said)

    def test_rounds_of_several_servers_are_followed_to_the_same_bytes(self):
        job = self.job(training=SEQUENTIAL, servers=SERVERS, fed=False)
        predictor = self.follow(job)
        job.start().wait_all()
        self.assert_ends_as_exported(job, predictor)

    def test_the_newest_weights_of_a_running_job_score_a_topic(self):
        job = self.job(training=EVENTUAL).start()
        job.feed(0.5)
        job.wait_for_rows(1000)
        new, scored, log = f"{job.name}-new", f"{job.name}-scored", job.folder / "scoring.log"
        for topic in (new, scored):
            self.broker.create(topic, 2)
        with open(log, "w", encoding="utf-8") as out:
            scoring = subprocess.Popen(
                [PREDICTOR, "--follow", "--brokers", self.broker.address, "--job", job.name, "--input-topic",
                 new, "--output-topic", scored], stdout=out, stderr=out, cwd=job.folder)  # fmt: skip
        self.addCleanup(scoring.wait)
        self.addCleanup(scoring.kill)

        def predictions(count):
            self.broker.write(new, map(json.dumps, NEW_ROWS))
            found = [json.loads(line) for line in self.broker.records(scored, count, topology.PATIENCE).splitlines()]
            self.assertEqual(len(found), count, log.read_text(encoding="utf-8"))
            return {json.dumps([each["class"], each["probabilities"]]) for each in found}

        early = predictions(2)
        job.feed(1)
        job.wait_all()
        end = time.monotonic() + topology.PATIENCE
        while "has ended; its last weights predict" not in log.read_text(encoding="utf-8"):
            self.assertLess(time.monotonic(), end, log.read_text(encoding="utf-8"))
            time.sleep(0.1)
        by_folder = Predictor(job.folder, "--model", self.exported(job))
        self.addCleanup(by_folder.end)
        last = {json.dumps([each["class"], each["probabilities"]]) for each in json.loads(by_folder.predict())}
        self.assertEqual(predictions(4) - early, last - early)
        self.assertTrue(last - early, "the weights at the end are those of before")

    def test_a_job_of_one_worker_and_a_regression_is_followed(self):
        data = self.path / "prices.csv"
        topology.write_csv(data, 3000)
        job = self.job(data=data, workers=1, fed=False, features=[
            "--label", "price", "--regression", "--numeric", "weight", "--categorical", "shop,day",
            "--text", "words", "--categorical-buckets", "64", "--text-buckets", "64"],
            training=EVENTUAL)  # fmt: skip
        predictor = self.follow(job)
        job.start().wait_all()
        self.assert_ends_as_exported(job, predictor)

    def test_another_job_of_the_same_name_is_followed_when_the_topics_are_new(self):
        job = self.job(training=EVENTUAL, fed=False)
        predictor = self.follow(job)
        job.start().wait_all()
        predictor.until(lambda: predictor.model().get("ended"))
        self.broker.delete(*(topic for topic in self.broker.topics() if topic.startswith(f"{job.name}.")))
        job.close()
        other = self.path / "other"
        other.mkdir()
        again = topology.Job(self.broker, job.name, other, data=self.data,
                             training=EVENTUAL, features=[
                                 "--label", "shop", "--numeric", "price", "--text", "words",
                                 "--text-buckets", "64"])  # fmt: skip
        again.commands["server"] += ["--snapshot-dir", again.snapshots]
        self.addCleanup(again.close)
        again.start().wait_all()
        predictor.until(lambda: '"north"' in predictor.predict())
        self.assert_ends_as_exported(again, predictor)

    def test_a_job_with_embedding_rows_is_followed_by_its_checkpoints_whoever_dies(self):
        job = self.job(servers=SERVERS, training=["--consistency", "eventual"], features=[
            "--label", "verdict", "--numeric", "price", "--ids", "shop,shop*day",
            "--text", "words", "--text-buckets", "32768"])  # fmt: skip
        predictor = self.follow(job)
        job.start().feed(0.25)
        predictor.until_ready()
        first = predictor.predict()
        job.feed(0.5)
        predictor.until(lambda: predictor.predict() != first)
        job.kill("server")
        predictor.predict()
        job.start("server")
        job.feed(1)
        job.wait_all()
        self.assert_ends_as_exported(job, predictor)
        self.assertEqual(int(predictor.model()["model"]["rows"]), ROWS)

    def test_a_job_whose_weights_are_gone_from_the_topic_is_read_from_its_checkpoints(self):
        job = self.job(training=EVENTUAL, fed=False)
        job.start().wait_all()
        self.broker.tool("kafka-configs", "--alter", "--entity-type", "topics", "--entity-name",
                         f"{job.name}.weights", "--add-config", "retention.ms=1,segment.ms=1")
        self.await_empty(f"{job.name}.weights", job.workers + 1)
        self.assert_ends_as_exported(job, self.follow(job))

    def await_empty(self, topic, partitions):
        end = time.monotonic() + topology.PATIENCE
        while True:
            begin, last = (self.broker.offsets(topic, partitions, which) for which in ("earliest", "latest"))
            if begin and begin == last:
                return
            self.assertLess(time.monotonic(), end, f"{topic} keeps its records")
            time.sleep(0.2)


if __name__ == "__main__":
    topology.main()
