"""The Python package on a real broker: its example, and rows that it sends. Needs the package and pandas."""

import contextlib
import doctest
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import textwrap
import threading
import types
import unittest

import numpy
import pandas

import millrace

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import topology  # noqa: E402

EXAMPLE = topology.ROOT / "python" / "examples" / "frame_to_stream.py"


class OnABroker(topology.OnABroker):
    def test_the_example_goes_from_a_frame_to_a_job_to_predictions(self):
        done = subprocess.run([sys.executable, EXAMPLE, self.broker.address, self.path / "clicks"],
                              env={**os.environ, "MILLRACE_BIN": str(topology.PROGRAMS)}, timeout=topology.PATIENCE,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("sent 4000 rows", done.stdout)
        self.assertRegex(done.stdout, r"progressive +4000 ")
        self.assertGreater(float(re.search(r"model: ([\d.]+)%", done.stdout).group(1)), 70)
        # One worker in its batches learns what one process learns row by row.
        self.assertLess(float(re.search(r"by at most ([\d.]+)", done.stdout).group(1)), 0.01)

    def test_the_page_goes_on_from_its_learners_to_a_stream(self):
        text = (topology.ROOT / "docs" / "python.md").read_text(encoding="utf-8")
        names = {}
        with contextlib.chdir(self.path):
            for example in doctest.DocTestParser().get_examples(text):
                with contextlib.suppress(*[Exception] if example.exc_msg else []):
                    exec(example.source, names)
            # As if the broker and the programs were where the page has them.
            names["millrace"] = types.SimpleNamespace(**{**vars(millrace), "Job": functools.partial(
                millrace.Job, brokers=self.broker.address, programs=topology.PROGRAMS)})
            block = re.search(r'(?m)^    frame\["fare"\].*\n(?:    .*\n)+', text)[0]
            exec(textwrap.dedent(block).replace("localhost:9092", self.broker.address), names)
        self.assertEqual(names["model"].predict(names["frame"]).shape, (200,))

    def test_rows_are_on_the_topic_when_send_returns(self):
        rows = [{"n": i, "text": "Größe", "none": None} for i in range(25_000)]
        self.assertEqual(millrace.send(iter(rows), "many", self.broker.address, partitions=3), len(rows))
        self.assertEqual(sorted(self.broker.offsets("many", 3, "latest")), [8333, 8333, 8334])
        read = [json.loads(line) for line in self.broker.records("many", len(rows)).splitlines()]
        self.assertEqual(sorted(read, key=lambda row: row["n"]), rows)

    def test_a_row_that_is_too_large_is_an_error(self):
        with self.assertRaisesRegex((ValueError, RuntimeError), "1100009 bytes to large .*too large"):
            millrace.send([{"a": "x" * 1_100_000}], "large", self.broker.address)

    def test_a_running_job_gives_its_model_while_rows_come(self):
        rows = [{"x": i % 10, "y": "yes" if i % 10 < 5 else "no"} for i in range(100)]
        done = threading.Event()

        def send():
            while not done.is_set():
                millrace.send(rows, "endless", self.broker.address)

        writer = threading.Thread(target=send)
        # TopicSource does not wait for a topic that is not there.
        millrace.send(rows, "endless", self.broker.address)
        with millrace.Job("endless", columns={"label": "y", "classes": ["no", "yes"], "numeric": ["x"]},
                          topic="endless", training={"batch_rows": 8}, workers=2,
                          brokers=self.broker.address, folder=self.path / "endless",
                          programs=topology.PROGRAMS) as job:  # fmt: skip
            self.addCleanup(done.set)
            writer.start()
            job.wait_for_rows(200, timeout=topology.PATIENCE)
            model = job.export(self.path / "endless-model")
            done.set()
            writer.join()
        self.assertGreaterEqual(int(model.description["rows"]), 200)
        self.assertEqual(model.predict([{"x": 1}, {"x": 8}]).tolist(), ["yes", "no"])

    def test_a_frame_becomes_a_job_that_ends_and_leaves_its_model(self):
        draw = numpy.random.default_rng(3)
        frame = pandas.DataFrame({"x": draw.normal(size=500), "day": draw.integers(0, 7, 500)})
        frame["y"] = 3 * frame["x"] + frame["day"]
        millrace.send(frame, "numbers", self.broker.address)
        with millrace.Job("numbers", columns={"label": "y", "regression": True, "numeric": ["x"],
                                              "categorical": ["day"]},
                          topic="numbers", source={"until_end": True}, workers=2, brokers=self.broker.address,
                          folder=self.path / "numbers", programs=topology.PROGRAMS) as job:
            job.wait(timeout=topology.PATIENCE)
            model = job.export(self.path / "numbers-model")
        self.assertTrue(job.state()["ended"])
        self.assertEqual(job.figures().loc["progressive", "rows"], 500)
        errors = model.predict(frame) - frame["y"]
        self.assertLess(errors.std(), frame["y"].std() / 4)


if __name__ == "__main__":
    topology.end_on_signals()
    unittest.main()
