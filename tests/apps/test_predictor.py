"""Predictor as a user meets it: files, HTTP, TLS. The folder `model` beside this file is a model that
version 0.1.0 exported, of 3,000 flights; whatever reads models must go on reading it."""

import contextlib
import csv
import http.client
import json
import math
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import unittest

PREDICTOR = pathlib.Path(os.environ["MILLRACE_PROGRAMS"]).resolve() / "Predictor"
MODEL = pathlib.Path(__file__).resolve().parent / "model"
ROWS = [{"distance": 1400, "temp": 39.02, "carrier": "UA"},
        {"distance": 184.5, "temp": None, "carrier": "a,\"b\"\n"},
        {"distance": -1e3, "temp": 0, "carrier": ""}]


def run(*words, **options):
    return subprocess.run([PREDICTOR, *map(str, words)], text=True, timeout=60, capture_output=True,
                          check=False, **{"stdin": subprocess.DEVNULL, **options})


class PredictorTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="millrace-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, rows, name="in.csv", columns=("distance", "temp", "carrier")):
        path = self.folder / name
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, restval="")
            writer.writeheader()
            writer.writerows(rows)
        return path

    def score(self, *words, **options):
        return run("--model", MODEL, "--output", self.folder / "out.csv", *words, cwd=self.folder, **options)

    def scored(self):
        with open(self.folder / "out.csv", newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))


class Files(PredictorTest):
    def test_are_scored_row_by_row(self):
        result = self.score("--input", self.write(ROWS))
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = self.scored()
        self.assertEqual([row["carrier"] for row in rows], ["UA", "a,\"b\"\n", ""])
        for row in rows:
            probabilities = [float(row["probability_no"]), float(row["probability_yes"])]
            self.assertAlmostEqual(sum(probabilities), 1, places=6)
            self.assertEqual(row["predicted_late"], "no" if probabilities[0] >= probabilities[1] else "yes")

    def test_with_labels_that_are_no_class_say_so(self):
        result = self.score("--input", self.write([{**ROWS[0], "late": "No"}], columns=("late", *ROWS[0])))
        self.assertIn("1 label is not known to the model, and in no figure; the first: line 2", result.stderr)

    def test_with_labels_have_figures(self):
        rows = [{**ROWS[0], "late": late} for late in ("yes", "no", "", "no", "perhaps")]
        figures = self.folder / "figures.json"
        result = self.score("--input", self.write(rows, columns=("late", *ROWS[0])), "--figures", figures)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("of the rows with a label: ", result.stderr)
        told = json.loads(figures.read_text())
        self.assertEqual(told["rows"], 3)
        self.assertAlmostEqual(told["prior_accuracy"], 2 / 3, places=5)
        self.assertIsNone(told["worse_than_prior"], "of three rows nothing is known")

    def test_with_labels_compare_a_challenger(self):
        rows = [{**ROWS[0], "late": late} for late in ("yes", "no", "", "no")]
        path = self.write(rows, columns=("late", *ROWS[0]))
        figures = self.folder / "figures.json"
        words = ["--input", path, "--challenger", MODEL, "--figures", figures]
        result = self.score(*words)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr, r"\n +model +challenger\nrows +3 +3\n")
        told = json.loads(figures.read_text())
        self.assertEqual(told["model"]["rows"], 3)
        self.assertEqual(told["model"], told["challenger"])
        self.assertEqual(len(self.scored()), 4)
        unlabelled = self.score("--input", self.write([{"late": ""}], columns=("late", *ROWS[0])),
                                "--challenger", MODEL)
        self.assertEqual(unlabelled.returncode, 1)

    def test_that_are_predicted_worse_than_by_the_class_frequencies_say_so(self):
        rows = [{**ROWS[0], "late": late} for late in ["yes"] * 990 + ["no"] * 10]
        path = self.write(rows, columns=("late", *ROWS[0]))
        figures = self.folder / "figures.json"
        result = self.score("--input", path, "--figures", figures)
        self.assertEqual(result.returncode, 0, result.stderr)
        told = json.loads(figures.read_text())
        self.assertIn("on these 1000 rows the model is worse than always answering the frequencies of the classes",
                      told["worse_than_prior"])
        self.assertIn(told["worse_than_prior"], result.stderr)
        result = self.score("--input", path, "--challenger", MODEL, "--figures", figures)
        told = json.loads(figures.read_text())
        for name in "model", "challenger":
            self.assertIn(f"{name}: {told[name]['worse_than_prior']}", result.stderr)

    def test_without_labels_have_none(self):
        result = self.score("--input", self.write(ROWS), "--figures", self.folder / "figures.json")
        self.assertEqual(result.returncode, 1)
        self.assertIn("--figures: no row has a label", result.stderr)

    def test_come_and_go_by_pipes_and_compressed(self):
        path = self.write(ROWS)
        self.score("--input", path)
        with open(path, "rb") as pipe:
            result = run("--model", MODEL, "--input", "-", "--output", "-", stdin=pipe, cwd=self.folder)
        self.assertEqual(result.stdout, (self.folder / "out.csv").read_text())
        subprocess.run(["gzip", path], check=True)
        packed = run("--model", MODEL, "--input", f"{path}.gz", "--output", "-", cwd=self.folder)
        self.assertEqual(packed.stdout, result.stdout)

    def test_have_their_malformed_rows_set_aside(self):
        path = self.write([*ROWS, {"distance": "far", "temp": 1, "carrier": "UA"}])
        result = self.score("--input", path)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("1 row is of no use, and in in.csv.rejects.csv instead of the output", result.stderr)
        self.assertIn("far", result.stderr)
        self.assertIn("far", (self.folder / "in.csv.rejects.csv").read_text())
        self.assertEqual(len(self.scored()), len(ROWS))
        nothing = self.score("--input", self.write([{"distance": "far"}]))
        self.assertEqual(nothing.returncode, 1)
        self.assertIn("no row of", nothing.stderr)
        self.assertEqual(len(self.scored()), len(ROWS))

    def test_that_are_devices_or_pipes_are_written_as_they_are(self):
        path = self.write(ROWS)
        result = run("--model", MODEL, "--input", path, "--output", "/dev/stdout", cwd=self.folder)
        self.assertEqual(result.stdout.count("\n"), 5, result.stderr)
        # Also where standard output is a regular file: what is of the same name in /dev is a link to it.
        words = " ".join(map(str, [PREDICTOR, "--model", MODEL, "--input", path, "--output", "/dev/stdout"]))
        subprocess.run(["bash", "-c", f"echo first > out; {words} >> out"], check=True, cwd=self.folder,
                       capture_output=True)
        self.assertTrue(pathlib.Path("/dev/stdout").is_symlink())
        self.assertEqual((self.folder / "out").read_text(), "first\n" + result.stdout)
        full = run("--model", MODEL, "--input", path, "--output", "/dev/full", cwd=self.folder)
        self.assertEqual(full.returncode, 1)
        self.assertIn("/dev/full", full.stderr)
        self.assertTrue(pathlib.Path("/dev/full").is_char_device())
        figures = self.score("--input", self.write([{**ROWS[0], "late": "no"}], columns=("late", *ROWS[0])),
                             "--figures", "/dev/full")
        self.assertEqual(figures.returncode, 1)
        self.assertIn("it is no regular file", figures.stderr)
        self.assertTrue(pathlib.Path("/dev/full").is_char_device())

    def test_are_not_written_over_one_another(self):
        path = self.write(ROWS)
        before = path.read_bytes()
        for words in (["--output", path], ["--output", "out", "--figures", path], ["--output", "out", "--figures", "out"],
                      ["--output", "out", "--reject-file", "./out"]):
            result = run("--model", MODEL, "--input", path, *words, cwd=self.folder)
            self.assertEqual(result.returncode, 2)
            self.assertIn("is the same file as", result.stderr)
        self.assertEqual(path.read_bytes(), before)

    def test_that_are_not_scored_to_their_end_leave_no_output(self):
        path = self.folder / "endless"
        os.mkfifo(path)
        process = subprocess.Popen([PREDICTOR, "--model", MODEL, "--input", path, "--output", "out.csv"],
                                   cwd=self.folder, stderr=subprocess.PIPE)
        # (To open it for reading, too, waits for nobody.)
        with os.fdopen(os.open(path, os.O_RDWR), "wb", buffering=0) as pipe:
            pipe.write(b"distance,temp,carrier\n" + b"1,2,UA\n" * 5000)
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=20)
        self.assertEqual(process.returncode, 130)
        self.assertEqual(os.listdir(self.folder), ["endless"])


class Flags(PredictorTest):
    def assert_error(self, code, part, *words):
        result = run(*words, cwd=self.folder)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertIn(part, result.stderr)

    def test_help_teaches_with_examples_and_exit_codes(self):
        result = run("--help")
        self.assertEqual(result.returncode, 0)
        for part in ("Examples", "Exit codes", "--model", "[127.0.0.1:8080]"):
            self.assertIn(part, result.stdout)
        self.assertRegex(run("--version").stdout, r"^Millrace \d+\.\d+\.\d+( \([0-9a-f]+(-dirty)?\))?\n$")

    def test_that_do_not_fit_are_wrong_usage(self):
        self.assert_error(2, "--model", "--input", "x")
        self.assert_error(2, "--follow --job ID", "--follow", "--model", MODEL)
        self.assert_error(2, "--job has no effect without --follow", "--model", MODEL, "--job", "x")
        self.assert_error(2, "there is no flag --modl; did you mean --model?", "--modl", MODEL)
        self.assert_error(2, "both --input FILE and --output FILE", "--model", MODEL, "--input", "x")
        self.assert_error(2, "--listen", "--model", MODEL, "--listen", "8080")
        self.assert_error(2, "--tls-key", "--model", MODEL, "--tls-cert", "x")
        self.assert_error(2, "--tls-cert", "--model", MODEL, "--tls-ca", "x")
        self.assert_error(2, "--figures is for a file", "--model", MODEL, "--figures", "x")
        self.assert_error(2, "--listen is for HTTP", "--model", MODEL, "--input", "x", "--output", "y",
                          "--listen", "127.0.0.1:0")
        self.assert_error(2, "--threads", "--model", MODEL, "--threads", "0")

    def test_of_a_challenger_that_do_not_fit_are_wrong_usage(self):
        challenger = ["--model", MODEL, "--challenger", MODEL]
        self.assert_error(2, "--challenger needs --id-column NAME over HTTP", *challenger)
        self.assert_error(2, "--id-column late is the label", *challenger, "--id-column", "late")
        self.assert_error(2, "--id-column has no effect without --challenger", *challenger[:2], "--id-column", "x")
        self.assert_error(2, "--max-waiting-bytes has no effect", *challenger[:2], "--max-waiting-bytes", "5000")
        self.assert_error(2, "--challenger is for a file and for HTTP", *challenger, "--input-topic", "a",
                          "--output-topic", "b")
        self.assert_error(2, "--id-column is for HTTP", *challenger, "--input", "x", "--output", "y",
                          "--id-column", "x")
        self.assert_error(1, "no model in nothing", "--model", MODEL, "--challenger", "nothing", "--id-column", "x")

    def test_of_topics_that_do_not_fit_are_wrong_usage(self):
        topics = ["--model", MODEL, "--input-topic", "a", "--output-topic", "b"]
        self.assert_error(2, "both --input-topic TOPIC and --output-topic TOPIC", *topics[:4])
        self.assert_error(2, "--with-row is for topics", "--model", MODEL, "--with-row")
        self.assert_error(2, "--brokers has no effect without --follow or --input-topic", "--model", MODEL,
                          "--input", "x", "--output", "y", "--brokers", "localhost:9")
        self.assert_error(2, "--listen is for HTTP, and has no effect with --input-topic", *topics,
                          "--listen", "127.0.0.1:0")
        self.assert_error(2, "--figures is for a file, and has no effect with --input-topic", *topics,
                          "--figures", "x")
        self.assert_error(2, "--from: give beginning, now, or a time", *topics, "--from", "noon")
        self.assert_error(2, "--delimiter", *topics, "--format", "csv", "--columns", "a", "--delimiter", "xx")
        self.assert_error(2, 'no column "distance"', *topics, "--format", "csv", "--columns", "a")
        self.assert_error(2, "--kafka: expected KEY=VALUE", *topics, "--kafka", "secret")
        self.assert_error(2, "librdkafka has no such setting", *topics, "--kafka", "a=b")
        (self.folder / "job").write_text('kafka { key: "a" value: 1 }')
        self.assert_error(2, "job:1:", *topics, "--config", "job")
        self.assert_error(1, "the configuration nothing cannot be read", *topics, "--config", "nothing")

    def test_give_up_a_broker_that_does_not_answer_in_time(self):
        self.assert_error(1, "", "--model", MODEL, "--input-topic", "a", "--output-topic", "b", "--brokers",
                          "127.0.0.1:1", "--broker-timeout", "0.1")

    def test_that_name_nothing_are_errors(self):
        self.assert_error(1, "no model in nothing", "--model", "nothing")
        self.assert_error(1, "nothing.csv", "--model", MODEL, "--input", "nothing.csv", "--output", "out")
        self.assert_error(1, "cannot read nothing", "--model", MODEL, "--token-file", "nothing")

    def test_in_whose_place_a_pipe_is_are_errors(self):
        for name in ("model.json", "weights.npy"):
            model = self.folder / f"model-{name}"
            shutil.copytree(MODEL, model)
            (model / name).unlink()
            os.mkfifo(model / name)
            self.assert_error(1, f"{model / name}: it is a pipe, and no regular file", "--model", model)

    def test_are_errors_where_rows_come_from_or_go_to_a_stream_that_is_closed(self):
        words = [PREDICTOR, "--model", MODEL, "--input", self.write(ROWS), "--output"]
        closed = [([*words, "-"], 1, "standard output"),
                  ([PREDICTOR, "--model", MODEL, "--input", "-", "--output", "out.csv"], 0, "standard input")]
        for command, fd, name in closed:
            result = subprocess.run(list(map(str, command)), cwd=self.folder, stderr=subprocess.PIPE, text=True,
                                    timeout=60, check=False, preexec_fn=lambda fd=fd: os.close(fd))
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn(name, result.stderr)
        self.assertFalse((self.folder / "out.csv").exists())


class Jobs(PredictorTest):
    def test_whose_kafka_does_not_answer_are_waited_for_as_long_as_told(self):
        with contextlib.closing(socket.socket()) as listener:
            listener.bind(("127.0.0.1", 0))
            nobody = f"127.0.0.1:{listener.getsockname()[1]}"
            result = run("--follow", "--brokers", nobody, "--broker-timeout", "1", "--listen", "127.0.0.1:0")
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"no Kafka broker answered at {nobody} (--brokers) for 1 s (--broker-timeout)", result.stderr)

    def test_that_are_waited_for_can_be_waited_for_no_longer(self):
        with contextlib.closing(socket.socket()) as listener:
            listener.bind(("127.0.0.1", 0))
            nobody = f"127.0.0.1:{listener.getsockname()[1]}"
            process = subprocess.Popen([PREDICTOR, "--follow", "--brokers", nobody, "--input",
                                        self.write(ROWS), "--output", "out.csv"], cwd=self.folder,
                                       stderr=subprocess.PIPE, text=True)
            self.addCleanup(process.kill)
            while "waiting for Kafka" not in (line := process.stderr.readline()):
                self.assertTrue(line)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=20)
        self.assertEqual(process.returncode, 130)
        self.assertFalse((self.folder / "out.csv").exists())


class Http(PredictorTest):
    def start(self, *words, model=MODEL):
        process = subprocess.Popen([PREDICTOR, "--model", model, "--listen", "127.0.0.1:0", *map(str, words)],
                                   cwd=self.folder, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.log = []
        while "listening on 127.0.0.1:" not in (line := process.stderr.readline()):
            self.assertTrue(line, f"Predictor ended: {self.log}")
            self.log.append(line)
        self.port = int(line.rsplit(":", 1)[1])
        return process

    def ask(self, method, path, body=None, headers=None, context=None):
        connection = (http.client.HTTPSConnection("127.0.0.1", self.port, timeout=20, context=context)
                      if context else http.client.HTTPConnection("127.0.0.1", self.port, timeout=20))
        with contextlib.closing(connection):
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def test_gives_the_predictions_of_a_file_to_the_last_digit(self):
        self.score("--input", self.write(ROWS))
        expected = [[row["predicted_late"], row["probability_no"], row["probability_yes"]] for row in self.scored()]
        self.start()

        def numbers_as_text(text):
            return json.loads(text, parse_float=str, parse_int=str)

        def cells(prediction):
            return [prediction["class"], *prediction["probabilities"].values()]

        status, text = self.ask("POST", "/predict", json.dumps(ROWS))
        self.assertEqual(status, 200, text)
        self.assertEqual([cells(each) for each in numbers_as_text(text)], expected)
        status, text = self.ask("POST", "/predict", "\n".join(map(json.dumps, ROWS)),
                                {"Content-Type": "application/x-ndjson"})
        self.assertEqual([cells(numbers_as_text(line)) for line in text.splitlines()], expected)
        status, text = self.ask("POST", "/predict", json.dumps(ROWS[1]))
        self.assertEqual(cells(numbers_as_text(text)), expected[1])

    def test_gives_contributions_that_add_up_to_the_log_odds(self):
        self.score("--input", self.write(ROWS), "--contributions")
        scored = self.scored()
        self.start()
        _, plain = self.ask("POST", "/predict", json.dumps(ROWS))
        status, text = self.ask("POST", "/predict?contributions=1", json.dumps(ROWS))
        self.assertEqual(status, 200, text)
        self.assertEqual(self.ask("POST", "/predict?contributions=0", json.dumps(ROWS))[1], plain)
        for answer, expected, row in zip(json.loads(text), json.loads(plain), scored, strict=True):
            contributions = answer.pop("contributions")
            self.assertEqual(float(row["offset_late"]), contributions["offset"])
            for name, part in contributions["parts"].items():
                self.assertEqual(float(row[f"contribution_{name}"]), part)
            self.assertEqual(answer, expected)
            self.assertEqual(contributions["of"], "yes")
            self.assertEqual(set(contributions["parts"]), {"distance", "temp", "carrier"})
            odds = math.log(answer["probabilities"]["yes"] / answer["probabilities"]["no"])
            self.assertAlmostEqual(contributions["offset"] + sum(contributions["parts"].values()), odds, places=4)

    def test_compares_a_challenger_by_the_labels_that_come_later(self):
        other = self.folder / "other"
        shutil.copytree(MODEL, other)
        self.start()
        _, alone = self.ask("POST", "/predict", json.dumps(ROWS))
        self.start("--challenger", other, "--id-column", "flight")
        rows = [{**row, "flight": i} for i, row in enumerate(ROWS)]
        self.assertEqual(self.ask("POST", "/predict", json.dumps(rows)), (200, alone))
        labels = [{"flight": 0, "late": "no"}, {"flight": 9, "late": "yes"}]
        status, text = self.ask("POST", "/labels", json.dumps(labels))
        self.assertEqual((status, json.loads(text)), (200, {"labels": 1, "unknown": 1}))
        self.ask("POST", "/labels", '{"flight": 2, "late": "yes"}', {"Content-Type": "application/x-ndjson"})
        told = json.loads(self.ask("GET", "/challenger")[1])
        self.assertEqual((told["labels"], told["waiting"], told["newer_challenger_error"]), (2, 1, None))
        probabilities = [each["probabilities"] for each in json.loads(alone)]
        loss = -(math.log(probabilities[0]["no"]) + math.log(probabilities[2]["yes"])) / 2
        for side in ("model", "challenger"):
            self.assertAlmostEqual(told["figures"][side]["log_loss"], loss, places=4)
        shutil.rmtree(other)
        self.until(lambda: "no model in" in self.ask("GET", "/challenger")[1])
        self.assertEqual(self.ask("POST", "/labels", '{"flight": 1, "late": "no"}')[0], 200)

    def test_says_what_is_wrong_with_a_request(self):
        self.start()
        for body, part in ((json.dumps([ROWS[0], {"distance": 1}]), "row 2: there is no 'temp'"),
                           ('{"distance": "far", "temp": 1, "carrier": ""}', "far"), ("{", "malformed JSON")):
            status, text = self.ask("POST", "/predict", body)
            self.assertEqual(status, 400)
            self.assertIn(part, json.loads(text)["error"])
        self.assertEqual(self.ask("GET", "/predict")[0], 405)
        self.assertEqual(self.ask("GET", "/nothing")[0], 404)

    def test_tells_of_the_model_and_that_it_is_ready(self):
        self.start()
        status, text = self.ask("GET", "/model")
        self.assertEqual((status, json.loads(text)["model"]["job"]), (200, "p3b"))
        self.assertEqual(self.ask("GET", "/healthz")[0], 200)
        self.assertEqual(self.ask("GET", "/readyz")[0], 200)

    def test_keeps_its_model_while_the_folder_is_gone_and_takes_the_next_one(self):
        model = self.folder / "model"
        shutil.copytree(MODEL, model)
        self.start(model=model)
        before = self.ask("POST", "/predict", json.dumps(ROWS))
        shutil.rmtree(model)
        self.assertEqual(self.ask("POST", "/predict", json.dumps(ROWS)), before)
        broken = self.folder / "broken"
        shutil.copytree(MODEL, broken)
        (broken / "weights.npy").write_bytes(b"nothing")
        broken.rename(model)
        self.await_error("weights.npy")
        self.assertEqual(self.ask("POST", "/predict", json.dumps(ROWS)), before)
        shutil.rmtree(model)
        good = self.folder / "good"
        shutil.copytree(MODEL, good)
        good.rename(model)
        self.await_error(None)

    def await_error(self, part):
        def has_come():
            error = json.loads(self.ask("GET", "/model")[1])["newer_model_error"]
            return error is None if part is None else part in (error or "")

        self.until(has_come)

    def until(self, has_happened):
        limit = time.monotonic() + 20
        while not has_happened():
            self.assertLess(time.monotonic(), limit, "it never happened")
            time.sleep(0.05)

    def test_stops_by_ctrl_c(self):
        process = self.start()
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(20), 130)

    def test_with_a_token_answers_who_has_it(self):
        (self.folder / "token").write_text("secret\n")
        self.start("--token-file", "token")
        self.assertEqual(self.ask("POST", "/predict", json.dumps(ROWS))[0], 401)
        wrong = {"Authorization": "Bearer secrets"}
        self.assertEqual(self.ask("POST", "/predict", json.dumps(ROWS), wrong)[0], 401)
        right = {"Authorization": "Bearer secret"}
        self.assertEqual(self.ask("POST", "/predict", json.dumps(ROWS), right)[0], 200)

    def make_certificate(self, name, *more):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                        "-nodes", "-days", "2", "-subj", f"/CN={name}", "-keyout", f"{name}.key",
                        "-out", f"{name}.pem", *more], cwd=self.folder, check=True, capture_output=True)

    def context(self, *own):
        context = ssl.create_default_context(cafile=self.folder / "server.pem")
        if own:
            context.load_cert_chain(*[self.folder / name for name in own])
        return context

    def test_over_tls_shows_its_certificate_and_may_want_one(self):
        address = ["-addext", "subjectAltName=IP:127.0.0.1"]
        self.make_certificate("server", *address)
        self.make_certificate("ca")
        self.make_certificate("client", "-CA", "ca.pem", "-CAkey", "ca.key")
        self.make_certificate("stranger")
        tls = ["--tls-cert", "server.pem", "--tls-key", "server.key"]
        body = json.dumps(ROWS)
        first = self.start(*tls)
        self.assertEqual(self.ask("POST", "/predict", body, context=self.context())[0], 200)
        with self.assertRaises((OSError, http.client.HTTPException)):
            self.ask("POST", "/predict", body)
        first.kill()
        self.start(*tls, "--tls-ca", "ca.pem")
        shown = self.context("client.pem", "client.key")
        self.assertEqual(self.ask("POST", "/predict", body, context=shown)[0], 200)
        self.assertEqual(self.ask("POST", "/predict", body, context=self.context())[0], 403)
        strange = self.context("stranger.pem", "stranger.key")
        self.assertEqual(self.ask("POST", "/predict", body, context=strange)[0], 403)
        self.assertEqual(self.ask("GET", "/model", context=self.context())[0], 403)


if __name__ == "__main__":
    unittest.main(verbosity=2)
