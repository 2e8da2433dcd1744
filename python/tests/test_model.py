"""millrace.Model: what it predicts, from what it takes rows, and what it says of those it cannot use."""

import concurrent.futures
import datetime
import decimal
import http.client
import json
import math
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import numpy
import pandas
import places

import millrace

KINDS = ["deepfm", "deepfm-regression", "fm", "network", "network-classes", "network-regression",
         "network-regression-range", "network-wide", "network-wide-ids", "online", "online-classes",
         "online-ids", "online-regression", "online-regression-range", "online-wide-unscaled",
         "regression", "softmax", "softmax-classes"]  # fmt: skip


def small_model(folder, **columns):
    """A model of the columns; by default of the number a and the category b."""
    learner = millrace.OnlineClassifier(**(columns or {"numeric": ["a"], "categorical": ["b"]}))
    for i in range(8):
        row = {name: str(i % 3) for name in learner.columns_.get("categorical", [])}
        learner.learn_one({**row, **{name: i for name in learner.columns_.get("numeric", [])}}, i % 2 == 0)
    learner.save(folder / "model")
    return millrace.Model.load(folder / "model")


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="millrace-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class Predictions(Folder):
    """Of models of every kind: softmax, wide ones, ids, factors, networks, regressions; their columns are
    numbers, categories, crosses, bins, times and text."""

    @classmethod
    def setUpClass(cls):
        cls.rows = places.read_rows(places.FLIGHTS)
        found = sorted(path.name for path in places.MODELS.iterdir())
        assert found == KINDS, found

    def check(self, kind, rows):
        model = millrace.Model.load(places.MODELS / kind / "model")
        expected = numpy.load(places.MODELS / kind / "scores.npy")
        if len(model.classes_) == 0:
            numpy.testing.assert_array_equal(model.predict(rows(model)), expected[:, 0])
        else:
            numpy.testing.assert_array_equal(model.predict_proba(rows(model)), expected)
            self.assertEqual(model.predict(rows(model)).tolist(),
                             model.classes_[expected.argmax(axis=1)].tolist())  # fmt: skip

    def test_of_dicts_are_to_the_bit_those_of_every_kind_of_model(self):
        for kind in KINDS:
            with self.subTest(kind):
                self.check(kind, lambda model: iter(self.rows))

    def test_of_a_frame_and_of_arrays_are_the_same(self):
        frame = pandas.DataFrame(self.rows)
        records = frame.to_records(index=False)
        for kind in ("fm", "network-regression", "online-wide-unscaled"):
            with self.subTest(kind):
                self.check(kind, lambda model: frame)
                self.check(kind, lambda model: frame[model.columns].to_numpy())
                self.check(kind, lambda model: numpy.asarray(records))

    def test_are_those_of_the_predictor_over_http(self):
        rows = [places.typed(row) for row in self.rows[:500]]
        frame = pandas.DataFrame(rows, dtype=object)
        for kind in ("softmax", "online-classes", "online-wide-unscaled", "fm", "network", "regression"):
            with self.subTest(kind):
                model = millrace.Model.load(places.MODELS / kind / "model")
                expected = self.ask(places.MODELS / kind / "model", rows)
                if len(model.classes_) == 0:
                    found = model.predict(rows)
                    self.assertEqual(found.tolist(), [numpy.float32(each["estimate"]) for each in expected])
                    continue
                found = model.predict_proba(rows)
                for scores, each in zip(found, expected, strict=True):
                    self.assertEqual(scores.tolist(), [numpy.float32(p) for p in each["probabilities"].values()])
                self.assertEqual(model.predict(frame).tolist(), [each["class"] for each in expected])

    def ask(self, model, rows):
        process = subprocess.Popen([places.PROGRAMS / "Predictor", "--model", model, "--listen", "127.0.0.1:0"],
                                   stderr=subprocess.PIPE, text=True)  # fmt: skip
        try:
            while "listening on 127.0.0.1:" not in (line := process.stderr.readline()):
                self.assertTrue(line, "Predictor ended")
            connection = http.client.HTTPConnection("127.0.0.1", int(line.rsplit(":", 1)[1]), timeout=30)
            connection.request("POST", "/predict", json.dumps(rows))
            answer = connection.getresponse()
            body = answer.read()
            self.assertEqual(answer.status, 200, body)
            connection.close()
            return json.loads(body)
        finally:
            process.kill()
            process.wait()
            process.stderr.close()

    def test_of_many_threads_are_the_same(self):
        model = millrace.Model.load(places.MODELS / "online" / "model")
        expected = model.predict_proba(self.rows)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for found in pool.map(lambda _: model.predict_proba(self.rows), range(8)):
                numpy.testing.assert_array_equal(found, expected)

    def test_are_computed_while_other_threads_run(self):
        model = millrace.Model.load(places.MODELS / "deepfm" / "model")
        turns = [0]
        turns_of_rows = []
        done = threading.Event()

        def count():
            while not done.is_set():
                turns[0] += 1
                time.sleep(0)

        def rows():
            for i in range(20 * 4096 + 1):
                if i % 4096 == 0:
                    turns_of_rows.append(turns[0])
                yield self.rows[i % len(self.rows)]

        before = sys.getswitchinterval()
        sys.setswitchinterval(1000)  # nobody is interrupted: who waits gets the lock when it is given up
        try:
            counter = threading.Thread(target=count)
            counter.start()
            model.predict_proba(rows())
        finally:
            sys.setswitchinterval(before)
            done.set()
            counter.join()
        self.assertGreater(turns_of_rows[-1], turns_of_rows[0])


class Cells(Folder):
    def setUp(self):
        super().setUp()
        self.model = small_model(self.folder)

    def of(self, a, b="0"):
        return self.model.predict_proba([{"a": a, "b": b}])[0].tolist()

    def test_may_be_any_numbers(self):
        expected = self.of("3")
        for three in (3, 3.0, "3.0", numpy.float64(3), numpy.float32(3), numpy.int8(3), decimal.Decimal("3.0")):
            self.assertEqual(self.of(three), expected, repr(three))
        self.assertEqual(self.of(True), self.of(1))
        self.assertEqual(self.of(numpy.bool_(False)), self.of(0))
        self.assertEqual(self.of(10**30), self.of("1e30"))

    def test_that_are_missing_are_one_and_the_same(self):
        expected = self.of("")
        self.assertNotEqual(expected, self.of(0))
        for nothing in (None, math.nan, numpy.nan, pandas.NA, pandas.NaT, numpy.datetime64("NaT"),
                        decimal.Decimal("NaN")):  # fmt: skip
            self.assertEqual(self.of(nothing), expected, repr(nothing))
            self.assertEqual(self.of(1, nothing), self.of(1, ""), repr(nothing))

    def test_of_categories_are_the_text_that_json_has(self):
        self.assertEqual(self.of(1, 2), self.of(1, "2"))
        self.assertEqual(self.of(1, numpy.str_("2")), self.of(1, "2"))
        self.assertNotEqual(self.of(1, 2.0), self.of(1, "2"))
        self.assertEqual(self.of(1, 2.0), self.of(1, "2.0"))

    def test_may_be_dates_and_times(self):
        learner = millrace.OnlineClassifier(times=["at"])
        begin = datetime.datetime(2026, 1, 31, 22, 30)
        for i in range(100):
            learner.learn_one({"at": begin + datetime.timedelta(hours=7 * i)}, i % 2)
        learner.save(self.folder / "times")
        model = millrace.Model.load(self.folder / "times")
        expected = model.predict_proba([{"at": "2026-01-31 22:30:00"}]).tolist()
        self.assertNotEqual(expected, model.predict_proba([{"at": "2026-01-31 12:30:00"}]).tolist())
        for time_of in (begin, pandas.Timestamp(begin), numpy.datetime64(begin), numpy.datetime64(begin, "ns")):
            self.assertEqual(model.predict_proba([{"at": time_of}]).tolist(), expected, repr(time_of))
            frame = pandas.DataFrame({"at": [time_of]})
            self.assertEqual(model.predict_proba(frame).tolist(), expected)
        array = numpy.array([[begin]], dtype="datetime64[ns]")
        self.assertEqual(model.predict_proba(array).tolist(), expected)

    def test_may_stand_in_a_dict_in_the_row(self):
        model = small_model(self.folder / "nested", numeric=["c.age", "d"], categorical=["c.d.e"])
        expected = model.predict_proba([{"c.age": 4, "c.d.e": "x", "d": 1}]).tolist()
        for row in ({"c": {"age": 4, "d": {"e": "x"}}, "d": 1}, {"c": {"age": 4, "d.e": "x"}, "d": 1},
                    {"c": {"age": 4}, "c.d": {"e": "x"}, "d": 1}):  # fmt: skip
            self.assertEqual(model.predict_proba([row]).tolist(), expected)
        with self.assertRaisesRegex(ValueError, r"rows\[0\]: 'c\.age' is there twice"):
            model.predict([{"c": {"age": 4, "d": {"e": "x"}}, "c.age": 4, "d": 1}])

    def test_may_have_any_mapping_around_them(self):
        self.assertEqual(self.model.predict_proba([pandas.Series({"a": 3, "b": "0", "z": 1})])[0].tolist(),
                         self.of(3))  # fmt: skip


class Errors(Folder):
    def setUp(self):
        super().setUp()
        self.model = small_model(self.folder)
        self.good = {"a": 1, "b": "x"}

    def wrong(self, text, rows):
        with self.assertRaises(ValueError) as raised:
            self.model.predict_proba(rows)
        self.assertIn(text, str(raised.exception))

    def test_name_the_row_and_the_column(self):
        self.wrong("rows[1]: there is no 'b'; if it is not known, give None", [self.good, {"a": 1}])
        self.wrong("rows[5000]: ", [self.good] * 5000 + [{"a": "many", "b": ""}])
        self.wrong('rows[0]: column "a": "many" is not a number', [{"a": "many", "b": ""}])
        self.wrong("rows[1]: 'b' is of the type list; a cell is", [self.good, {"a": 1, "b": [1]}])
        self.wrong("rows[0]: 'b' is of the type bytes", [{"a": 1, "b": b"x"}])
        self.wrong("rows[0]: 'a' is of the type ndarray", [{"a": numpy.zeros(2), "b": ""}])
        self.wrong("rows[0]: 'b' is a string with a lone surrogate", [{"a": 1, "b": "\ud800"}])
        self.wrong("rows[1]: it is of the type list; a row is a dict", [self.good, [1, 2]])
        self.wrong("rows[2]: ", pandas.DataFrame({"a": [1, 2, "many"], "b": ["x", "x", "x"]}))

    def test_name_what_is_wrong_with_a_table(self):
        self.wrong("rows is one row; give a list of rows", self.good)
        self.wrong("the frame has no column 'b'; it has a", pandas.DataFrame({"a": [1]}))
        self.wrong("the frame has twice the column 'b'", pandas.DataFrame([[1, 2, 3]], columns=["a", "b", "b"]))
        self.wrong("the array has the shape (2,); give two dimensions, with the 2 columns a, b", numpy.zeros(2))
        self.wrong("the array has no field 'b'", numpy.zeros(2, dtype=[("a", "f8")]))

    def test_wait_for_no_end_of_the_rows(self):
        rows = [self.good] * 400_000 + [{"a": "many", "b": ""}]

        def stop(*_):
            raise InterruptedError

        before = signal.signal(signal.SIGALRM, stop)
        try:
            with self.assertRaises(InterruptedError) as raised:
                signal.setitimer(signal.ITIMER_REAL, 0.001)
                self.model.predict(rows)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        self.assertIsNone(raised.exception.__context__)  # the last row was not read

    def test_of_what_is_no_model_name_the_folder(self):
        with self.assertRaisesRegex(FileNotFoundError, "no model in .*nowhere"):
            millrace.Model.load(self.folder / "nowhere")
        shutil.copytree(self.folder / "model", self.folder / "damaged")
        weights = self.folder / "damaged" / "weights.npy"
        weights.write_bytes(weights.read_bytes()[:-1] + b"?")
        with self.assertRaisesRegex(ValueError, "damaged.*weights.npy"):
            millrace.Model.load(self.folder / "damaged")


class Description(Folder):
    def test_says_what_the_model_is(self):
        model = small_model(self.folder)
        self.assertEqual(model.columns, ["a", "b"])
        self.assertEqual(model.classes_.tolist(), ["false", "true"])
        self.assertEqual(model.description["features"]["numeric"], ["a"])
        self.assertEqual(model.description["rows"], "8")
        self.assertIn("2 classes, 2 columns", repr(model))

    def test_of_no_rows_there_are_no_predictions(self):
        model = small_model(self.folder)
        self.assertEqual(model.predict_proba([]).shape, (0, 2))
        self.assertEqual(model.predict(pandas.DataFrame({"a": [], "b": []})).shape, (0,))

    def test_of_a_regression_there_are_no_probabilities(self):
        learner = millrace.OnlineRegressor()
        learner.learn_one({"a": 1}, 2.0)
        learner.save(self.folder / "regression")
        with self.assertRaisesRegex(ValueError, "a regression, which has no probabilities"):
            millrace.Model.load(self.folder / "regression").predict_proba([{"a": 1}])


if __name__ == "__main__":
    unittest.main()
