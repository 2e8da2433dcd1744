"""Learning in one process: the same as a job of one worker, by the methods of River and of scikit-learn."""

import csv
import decimal
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

import numpy
import pandas
import places
import sklearn.base
import sklearn.pipeline
import sklearn.preprocessing

import millrace
from millrace import _rows

FLAGS = ["--numeric", "price,weight", "--booleans", "paid", "--categorical", "shop,shop*day",
         "--text", "words"]  # fmt: skip
COLUMNS = {"numeric": ["price", "weight"], "booleans": ["paid"], "categorical": ["shop", "shop*day"],
           "text": ["words"]}  # fmt: skip


def make_rows(count, seed=1):
    """Rows with their labels (three classes) and numbers to be estimated; some cells are missing."""
    draw = random.Random(seed)
    shops, words = ["north", "south", "east, west", 'the "old" one'], ["good", "bad", "Größe", "naïve"]
    rows = []
    for _ in range(count):
        shop, said = draw.randrange(4), [draw.choice(words) for _ in range(draw.randint(0, 5))]
        row = {"price": draw.gauss(1e5, 2e4), "weight": draw.random() * 1e-3, "paid": draw.random() < 0.3,
               "shop": shops[shop], "day": draw.randrange(7), "words": " ".join(said)}  # fmt: skip
        score = (row["price"] - 1e5) / 2e4 + shop - 1.5 + said.count("good") - said.count("bad")
        score += draw.gauss(0, 1) + row["paid"]
        for name in ("price", "paid", "day"):
            if draw.random() < 0.05:
                row[name] = None
        rows.append((row, "high" if score > 1 else "low" if score < -1 else "middle", 1e4 * score))
    return rows


ROWS = make_rows(1500)


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="millrace-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class AsAJob(Folder):
    """learn_csv is a whole job in one process: the tasks of its server and workers."""

    def job(self, labels, *flags):
        path = self.folder / "rows.csv"
        with open(path, "w", newline="", encoding="utf-8") as file:
            out = csv.writer(file)
            out.writerow([*ROWS[0][0], "label"])
            for (row, *_), label in zip(ROWS, labels, strict=True):
                cells = [str(cell).lower() if isinstance(cell, bool) else cell for cell in row.values()]
                out.writerow([*cells, label])
        done = subprocess.run([places.LEARN_CSV, "--input", path, "--label", "label", "--workers", "1",
                               *flags], check=True, capture_output=True, text=True)  # fmt: skip
        return json.loads(done.stdout)["whole"]

    def check(self, learner, labels, *flags, batch_rows=1, tolerance=0.0):
        for (row, *_), label in zip(ROWS, labels, strict=True):
            learner.learn_one(row, label)
        expected = self.job(labels, "--batch-rows", str(batch_rows), *flags)
        found = learner.figures()
        self.assertEqual(found["rows"], expected["rows"])
        for name, value in expected.items():
            if value is None:
                self.assertIsNone(found[name], name)
                continue
            self.assertLessEqual(abs(found[name] - value), tolerance * abs(value), (name, found[name], value))

    def labels(self):
        return [label for _, label, _ in ROWS]

    def test_it_learns_to_the_bit_what_a_job_of_one_worker_does(self):
        self.check(millrace.OnlineClassifier(**COLUMNS), self.labels(), *FLAGS)

    def test_of_two_classes_by_few_features(self):
        labels = ["yes" if label == "high" else "no" for label in self.labels()]
        columns = {"numeric": ["price", "weight"], "categorical": ["day"], "categorical_buckets": 64}
        self.check(millrace.OnlineClassifier(**columns), labels, "--numeric", "price,weight", "--categorical",
                   "day", "--categorical-buckets", "64")  # fmt: skip

    def test_of_unscaled_numbers_and_weighted_classes(self):
        weights = ["--class-weight", "balanced"], ["--class-weight", "high=3,low=0.5"]
        for class_weight, flags in zip(("balanced", {"high": 3, "low": 0.5}), weights, strict=True):
            learner = millrace.OnlineClassifier(numeric=["weight"], class_weight=class_weight, scaling=False)
            self.check(learner, self.labels(), "--numeric", "weight", "--scaling", "none", *flags)

    def test_of_ids(self):
        columns = {"numeric": ["price"], "ids": ["shop", "day"]}
        self.check(millrace.OnlineClassifier(**columns), self.labels(), "--numeric", "price", "--ids", "shop,day")

    def test_of_numbers_to_be_estimated(self):
        targets = [target for *_, target in ROWS]
        for loss in ("squared", "absolute", "huber"):
            learner = millrace.OnlineRegressor(**COLUMNS, loss=loss)
            self.check(learner, targets, *FLAGS, "--regression", "--loss", loss)

    def test_batches_only_round_otherwise(self):
        self.check(millrace.OnlineClassifier(**COLUMNS), self.labels(), *FLAGS, batch_rows=32, tolerance=1e-5)

    def test_the_features_are_those_of_the_job(self):
        learner = millrace.OnlineClassifier(**COLUMNS)
        for row, label, _ in ROWS:
            learner.learn_one(row, label)
        learner.save(self.folder / "model", "shops")
        described = millrace.Model.load(self.folder / "model").description
        self.assertEqual(described["job"], "shops")
        features = described["features"]
        self.assertEqual(features["categorical_buckets"], 262144)
        self.assertEqual(features["text_buckets"], 262144)
        self.assertEqual(features["classes"], ["high", "low", "middle"])


class Learning(Folder):
    def scores(self, learner):
        return [list(learner.predict_proba_one(row).values()) for row, *_ in ROWS[:50]]

    def test_it_makes_no_difference_how_rows_are_cut_into_calls(self):
        one = millrace.OnlineClassifier(**COLUMNS)
        for row, label, _ in ROWS[:600]:
            one.learn_one(row, label)
        rows, labels = [row for row, *_ in ROWS[:600]], [label for _, label, _ in ROWS[:600]]
        frame = pandas.DataFrame(rows, dtype=object)
        for cuts in ([0, 600], [0, 7, 300, 600]):
            for table in (rows, frame):
                many = millrace.OnlineClassifier(**COLUMNS)
                for begin, end in zip(cuts, cuts[1:], strict=False):
                    many.partial_fit(table[begin:end], labels[begin:end], classes=["low", "middle", "high"])
                self.assertEqual(self.scores(many), self.scores(one))
        self.assertEqual(self.scores(millrace.OnlineClassifier(**COLUMNS).fit(frame, labels)), self.scores(one))
        mixed = millrace.OnlineClassifier(**COLUMNS)
        for row, label in zip(rows[:10], labels[:10], strict=True):
            mixed.learn_one(row, label)
        mixed.partial_fit(frame[10:], labels[10:])
        self.assertEqual(self.scores(mixed), self.scores(one))

    def test_what_the_first_rows_show_counts_from_the_beginning(self):
        rows = [({"a": i % 5}, "x") for i in range(20)]
        rows += [({"a": i % 5, "b": "late"}, "y") for i in range(20)]
        rows += [({"a": "five", "b": None, "c": i % 2 == 0}, "z") for i in range(20)]
        rows += [({"a": i % 5, "b": "late", "c": 0.5}, "xyz"[i % 3]) for i in range(20)]
        found = millrace.OnlineClassifier()
        given = millrace.OnlineClassifier(numeric=["c"], categorical=["a", "b"], classes=["x", "y", "z"])
        for row, label in rows:
            found.learn_one(row, label)
            given.learn_one(row, label)
        self.assertEqual(found.columns_, {"label": "label", "numeric": ["c"], "categorical": ["a", "b"],
                                          "classes": ["x", "y", "z"]})  # fmt: skip
        probe = {"a": 3, "b": "late", "c": 0.25}
        self.assertEqual(found.predict_proba_one(probe), given.predict_proba_one(probe))
        self.assertEqual(found.figures(), given.figures())

    def test_after_the_first_rows_new_columns_are_not_looked_at_and_new_classes_are_errors(self):
        learner = millrace.OnlineClassifier(first_rows=4)
        for i in range(4):
            learner.learn_one({"a": i}, i % 2)
        learner.learn_one({"a": 1, "new": "x"}, 1)
        self.assertEqual(learner.columns_, {"label": "label", "numeric": ["a"], "classes": ["0", "1"]})
        with self.assertRaisesRegex(ValueError, r"2 is no class; known are 0, 1\. Give all classes .*classes="):
            learner.learn_one({"a": 1}, 2)
        self.assertEqual(learner.figures()["rows"], 5)

    def test_first_rows_of_one_class_are_an_error(self):
        learner = millrace.OnlineClassifier(first_rows=3)
        learner.learn_one({"a": 1}, "no")
        self.assertEqual(learner.predict_proba_one({"a": 1}), {"no": 1.0})
        self.assertEqual(learner.predict_one({"a": 1}), "no")
        learner.learn_one({"a": 1}, "no")
        with self.assertRaisesRegex(ValueError, r"of one class; give all of them: classes="):
            learner.learn_one({"a": 1}, "no")

    def test_a_row_that_cannot_be_used_teaches_nothing(self):
        learner = millrace.OnlineClassifier(numeric=["a"], categorical=["b"])
        twin = millrace.OnlineClassifier(numeric=["a"], categorical=["b"])
        for i in range(20):
            for each in (learner, twin):
                each.learn_one({"a": i % 7, "b": "x"}, i % 2)
            with self.assertRaisesRegex(ValueError, "many"):
                learner.learn_one({"a": "many", "b": "x"}, i % 2)
            with self.assertRaisesRegex(ValueError, "a label is missing"):
                learner.learn_one({"a": 1, "b": "x"}, None)
        for rows, labels in (([{"a": 1, "b": "x"}] * 2, [1, [2]]), ([{"a": 1}, {"a": "many"}], [0, 1])):
            with self.assertRaises(ValueError):
                learner.partial_fit(rows, labels)
        self.assertEqual(learner.predict_proba_one({"a": 3, "b": "x"}), twin.predict_proba_one({"a": 3, "b": "x"}))

    def test_a_refused_row_leaves_nothing_of_its_class_and_columns(self):
        good = [({"a": i, "d": 1}, "bc"[i % 2]) for i in range(10)]
        for columns in ({"numeric": ["a"]}, {"times": ["a"]}, {}):
            with self.subTest(columns):
                learner, twin = millrace.OnlineClassifier(**columns), millrace.OnlineClassifier(**columns)
                for row, label in good:
                    row = {**row, "a": "2026-01-02"} if "times" in columns else row
                    learner.learn_one(row, label)
                    twin.learn_one(row, label)
                bad = {"new": "x", "d": "late", "a": {} if not columns else "many", "list": [1]}
                for refused in (lambda of, row: of.learn_one(row, "a"),
                                lambda of, row: of.partial_fit([good[0][0], row], ["b", "a"])):  # fmt: skip
                    with self.assertRaises(ValueError):
                        refused(learner, bad)
                    self.assertEqual(learner.classes_.tolist(), ["b", "c"])
                    self.assertEqual(learner.columns_, twin.columns_)
                    rows = [row for row, _ in good]
                    self.assertEqual(learner.predict(rows).tolist(), twin.predict(rows).tolist())
                    self.assertEqual(learner.predict_proba(rows).tolist(), twin.predict_proba(rows).tolist())
                    self.assertEqual(learner.figures(), twin.figures())

    def test_keys_that_are_no_strings_are_errors(self):
        text = r"rows\[0\]: the key 1 is of the type int; the keys of a row are strings"
        for columns in ({}, {"numeric": ["a"]}, {"numeric": ["c.a"]}):
            learner = millrace.OnlineRegressor(**columns)
            row = {"c": {1: 2.0}} if columns.get("numeric") == ["c.a"] else {1: 2.0}
            with self.assertRaisesRegex(ValueError, text.removeprefix(r"rows\[0\]: ")):
                learner.learn_one(row, 1.0)
            with self.assertRaisesRegex(ValueError, text):
                learner.partial_fit([row], [1.0])
            learner.learn_one({"a": 1.0, "c": {"a": 1.0}}, 1.0)
            with self.assertRaisesRegex(ValueError, text):
                learner.predict([row])
            with self.assertRaisesRegex(ValueError, text):
                learner.partial_fit([row], [1.0])

    def test_its_columns_are_those_of_a_job(self):
        learner = millrace.OnlineClassifier(categorical_buckets=64, text_buckets=32, text=["t"], label="y")
        for i in range(4):
            learner.learn_one({"a": i, "b": "x", "t": "some words"}, i % 2 == 0)
        self.assertEqual(learner.columns_, {"label": "y", "numeric": ["a"], "categorical": ["b"], "text": ["t"],
                                            "categorical_buckets": 64, "text_buckets": 32,
                                            "classes": ["false", "true"]})  # fmt: skip
        estimator = millrace.OnlineRegressor(categorical_buckets=64, text_buckets=32)
        estimator.learn_one({"a": 1}, 2)
        self.assertEqual(estimator.columns_, {"label": "label", "numeric": ["a"], "regression": True})

    def test_other_threads_run_while_it_is_asked_for_what_it_has_learnt(self):
        learner = millrace.OnlineRegressor(numeric=["a"])
        learner.learn_one({"a": 1}, 2)
        calls = (learner.figures, lambda: learner._session.rows,
                 lambda: learner.save(self.folder / "model"))  # fmt: skip
        turns, done = [0], threading.Event()

        def count():
            while not done.is_set():
                turns[0] += 1
                time.sleep(0)

        counter = threading.Thread(target=count)
        before = sys.getswitchinterval()
        sys.setswitchinterval(1000)  # nobody is interrupted: who waits gets the lock when it is given up
        try:
            counter.start()
            for call in calls:
                # On a busy machine it may take a while until the other thread is there at that moment.
                began, end = turns[0], time.monotonic() + 60
                while turns[0] == began and time.monotonic() < end:
                    call()
                self.assertGreater(turns[0], began)
        finally:
            sys.setswitchinterval(before)
            done.set()
            counter.join()

    def test_a_missing_column_is_a_missing_cell(self):
        learner = millrace.OnlineClassifier(numeric=["a"], categorical=["b"])
        for i in range(30):
            learner.learn_one({"a": i} if i % 3 else {"b": "x"}, i % 2)
        self.assertEqual(learner.predict_proba_one({}), learner.predict_proba_one({"a": None, "b": None}))
        self.assertNotEqual(learner.predict_proba_one({}), learner.predict_proba_one({"a": 0, "b": "x"}))

    def test_labels_come_back_as_they_were(self):
        for labels in ((False, True), (0, 1), ("no", "yes"), (1.5, 10), ("9", "10")):
            learner = millrace.OnlineClassifier()
            for i in range(40):
                learner.learn_one({"a": i % 2}, labels[i % 2])
            self.assertEqual(learner.classes_.tolist(), list(labels))
            self.assertIs(type(learner.predict_one({"a": 1})), type(labels[1]))
            self.assertEqual(learner.predict_one({"a": 1}), labels[1])

    def test_before_the_first_row_nothing_is_known(self):
        self.assertIsNone(millrace.OnlineClassifier().predict_one({"a": 1}))
        self.assertEqual(millrace.OnlineRegressor().predict_one({"a": 1}), 0.0)
        self.assertEqual(millrace.OnlineRegressor().figures(), {"rows": 0})
        with self.assertRaisesRegex(ValueError, "has learnt nothing yet"):
            millrace.OnlineClassifier().predict([{"a": 1}])
        with self.assertRaisesRegex(ValueError, "no model to save"):
            millrace.OnlineClassifier().save(self.folder / "model")


class WorseThanNothing(unittest.TestCase):
    """The rule and its words are those of a job's displays (topics/figures_verdict.h)."""

    def test_a_classifier_that_is_worse_than_the_class_frequencies_says_so(self):
        draw = random.Random(1)
        rows = [({"a": draw.random()}, draw.random() < 0.05) for _ in range(1500)]
        for weight, words in ((None, None), ({True: 100.0}, "the frequencies of the classes: its log loss is")):
            learner = millrace.OnlineClassifier(numeric=["a"], class_weight=weight, classes=[False, True])
            for row, label in rows[:999]:
                learner.learn_one(row, label)
            self.assertIsNone(learner.figures()["worse_than_prior"], "999 rows are a matter of chance")
            for row, label in rows[999:]:
                learner.learn_one(row, label)
            if words is None:
                self.assertIsNone(learner.figures()["worse_than_prior"])
                continue
            self.assertIn(f"after 1500 rows the model is worse than always answering {words}",
                          learner.figures()["worse_than_prior"])
            self.assertIn("With class_weight a higher log loss", learner.figures()["worse_than_prior"])

    def test_a_regressor_that_is_worse_than_the_mean_says_so(self):
        draw = random.Random(1)
        learner = millrace.OnlineRegressor(numeric=["a"], loss="absolute")
        learner.partial_fit([{"a": draw.random()} for _ in range(1500)],
                            [draw.expovariate(1) ** 3 for _ in range(1500)])
        self.assertIn("worse than always answering the mean of the targets: its root mean squared error is",
                      learner.figures()["worse_than_prior"])
        self.assertNotIn("--", learner.figures()["worse_than_prior"])


class Saving(Folder):
    def check(self, learner, rows, scores):
        learner.save(self.folder / "model")
        model = millrace.Model.load(self.folder / "model")
        found = scores(model, rows)
        expected = scores(learner, rows)
        numpy.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-5 * numpy.abs(expected).max())
        path, scored = self.folder / "rows.csv", self.folder / "scored.csv"
        pandas.DataFrame(rows)[model.columns].to_csv(path, index=False)
        subprocess.run([places.PROGRAMS / "Predictor", "--model", self.folder / "model", "--input", path,
                        "--output", scored], check=True, capture_output=True)  # fmt: skip
        read = pandas.DataFrame(places.read_rows(path))
        told = pandas.read_csv(scored, float_precision="round_trip")
        told = told.filter(regex="^(probability|predicted)_")
        told = told.select_dtypes("number").to_numpy(dtype=numpy.float32)
        numpy.testing.assert_array_equal(scores(model, read).reshape(told.shape), told)

    def test_a_classifier_becomes_a_model_that_the_predictor_reads(self):
        columns = {"numeric": ["price", "weight"], "categorical": ["shop"], "text": ["words"]}
        learner = millrace.OnlineClassifier(**columns, label="verdict")
        for row, label, _ in ROWS:
            learner.learn_one(row, label)
        self.check(learner, [row for row, *_ in ROWS[:100]], lambda of, rows: of.predict_proba(rows))

    def test_a_regressor_becomes_a_model_that_the_predictor_reads(self):
        learner = millrace.OnlineRegressor(numeric=["price"], ids=["shop"], label="score")
        for row, _, target in ROWS:
            learner.learn_one(row, target)
        self.check(learner, [row for row, *_ in ROWS[:100]], lambda of, rows: of.predict(rows))


class InScikitLearn(unittest.TestCase):
    def test_it_is_cloned_and_configured(self):
        learner = millrace.OnlineClassifier(numeric=["a"], class_weight="balanced")
        twin = sklearn.base.clone(learner)
        self.assertEqual(twin.get_params(), learner.get_params())
        self.assertEqual(twin.set_params(first_rows=5).first_rows, 5)
        self.assertTrue(sklearn.base.is_classifier(learner))
        self.assertTrue(sklearn.base.is_regressor(millrace.OnlineRegressor()))

    def test_it_stands_at_the_end_of_a_pipeline(self):
        draw = numpy.random.default_rng(1)
        x = draw.normal(size=(400, 3))
        y = (x[:, 0] - x[:, 2] + draw.normal(scale=0.1, size=400) > 0).astype(int)
        pipeline = sklearn.pipeline.make_pipeline(sklearn.preprocessing.StandardScaler(), millrace.OnlineClassifier())
        pipeline.fit(x[:300], y[:300])
        self.assertGreater(pipeline.score(x[300:], y[300:]), 0.9)
        self.assertEqual(pipeline.predict_proba(x[300:]).shape, (100, 2))
        self.assertEqual(pipeline.classes_.tolist(), [0, 1])
        estimates = millrace.OnlineRegressor().fit(x[:300], x[:300] @ [1, 2, 3])
        self.assertGreater(estimates.score(x[300:], x[300:] @ [1, 2, 3]), 0.95)

    def test_columns_of_a_frame_may_stand_in_any_order(self):
        frame = pandas.DataFrame({"shop": ["a", "b"] * 20, "price": range(40)})
        learner = millrace.OnlineClassifier().fit(frame, ["x", "y"] * 20)
        expected = learner.predict_proba(frame)
        numpy.testing.assert_array_equal(learner.predict_proba(frame[["price", "shop"]]), expected)
        numpy.testing.assert_array_equal(learner.predict_proba(frame.to_numpy()), expected)
        numpy.testing.assert_array_equal(learner.predict_proba(frame.to_numpy().tolist()), expected)
        self.assertEqual(learner.n_features_in_, 2)
        self.assertEqual(learner.feature_names_in_.tolist(), ["shop", "price"])

    def test_a_category_of_pandas_is_one_whatever_its_type(self):
        frame = pandas.DataFrame({"shop": pandas.Series([1, 2, None] * 20, dtype="Int64").astype("category"),
                                  "price": range(60)})  # fmt: skip
        labels = ["x", "y", "z"] * 20
        fitted = millrace.OnlineClassifier().fit(frame, labels)
        begun = millrace.OnlineClassifier()
        begun.learn_one({"shop": 1, "price": 0}, "x")
        begun.partial_fit(frame[1:], labels[1:])
        for learner in (fitted, begun):
            self.assertEqual(learner.columns_["categorical"], ["shop"])
            self.assertEqual(learner.columns_["numeric"], ["price"])
        expected = millrace.OnlineClassifier(categorical=["shop"], numeric=["price"])
        expected.fit([{"shop": [1, 2, None][i % 3], "price": i} for i in range(60)], labels)
        for learner in (fitted, begun):
            numpy.testing.assert_array_equal(learner.predict_proba(frame), expected.predict_proba(frame))
        self.assertEqual(_rows.as_list(pandas.Series([1, None]).astype("category").cat.rename_categories([1])),
                         [1, None])  # fmt: skip

    def test_a_table_is_taken_in_pieces(self):
        frame = pandas.DataFrame({"a": range(40), "b": ["x", "y"] * 20})
        learner = millrace.OnlineClassifier().fit(frame, ["u", "v"] * 20)
        expected = learner.predict_proba(frame)
        sizes = []

        def lists_of(rows, *others):
            sizes.append(len(rows))
            return taken(rows, *others)

        taken = _rows.lists_of
        with mock.patch.object(_rows, "_ROWS_AT_ONCE", 7), mock.patch.object(_rows, "lists_of", lists_of):
            for table in (frame, frame.to_numpy(), frame.to_records(index=False)):
                numpy.testing.assert_array_equal(learner.predict_proba(table), expected)
                self.assertEqual(learner.predict_proba(table[:0]).shape, (0, 2))
            frame["a"] = frame["a"].astype(object)
            frame.loc[38, "a"] = "many"
            with self.assertRaisesRegex(ValueError, r"rows\[38\]: .*many"):
                learner.predict(frame)
        self.assertEqual(max(sizes), 7)

    def test_fit_begins_again(self):
        learner = millrace.OnlineClassifier().fit([[1.0], [2.0]], ["a", "b"])
        learner.fit([["u", 1], ["v", 2]], [0, 1])
        self.assertEqual(learner.classes_.tolist(), [0, 1])
        self.assertEqual(learner.figures()["rows"], 2)

    def test_what_does_not_fit_together_is_an_error(self):
        learner = millrace.OnlineClassifier()
        for text, x, y in (("2 rows and 1 labels", [[1], [2]], [1]), ("of one class", [[1], [2]], [1, 1]),
                           ("no column with a value", [[math.nan], [None]], [0, 1])):  # fmt: skip
            with self.assertRaisesRegex(ValueError, text):
                learner.fit(x, y)
        with self.assertRaisesRegex(ValueError, 'loss is "?\'?cubed'):
            millrace.OnlineRegressor(loss="cubed").fit([[1]], [1])
        with self.assertRaisesRegex(ValueError, "class_weight is 'even'"):
            millrace.OnlineClassifier(class_weight="even").fit([[1], [2]], [0, 1])


class Places(unittest.TestCase):
    """Errors say where they are."""

    def wrong(self, text, learner, x, y):
        with self.assertRaises(ValueError) as raised:
            learner.fit(x, y)
        self.assertIn(text, str(raised.exception))

    def test_of_labels_and_cells(self):
        rows = [{"a": 1}, {"a": 2}, {"a": 3}]
        for learner in (millrace.OnlineClassifier(), millrace.OnlineClassifier(numeric=["a"])):
            self.wrong("rows[1]: a label is missing", learner, rows, ["x", None, "y"])
            self.wrong("rows[2]: a label is of the type list", learner, rows, ["x", "y", [1]])
            self.wrong("rows[1]: it is of the type int; a row is a dict", learner, [rows[0], 2, rows[2]], "xyx")
        self.wrong("rows[2]: 'z' is no class; known are 'x', 'y'", millrace.OnlineClassifier(classes=["x", "y"]),
                   rows, ["x", "y", "z"])  # fmt: skip
        lists = [{"a": 1}, {"a": [1]}, {"a": 3}]
        for table in (lists, pandas.DataFrame(lists)):
            self.wrong("rows[1]: 'a' is of the type list", millrace.OnlineClassifier(), table, "xyx")
        learner = millrace.OnlineClassifier().fit(rows, "xyx")
        with self.assertRaisesRegex(ValueError, r"rows\[1\]: 'z' is no class"):
            learner.partial_fit(rows, "xzy")
        learner = millrace.OnlineClassifier(numeric=["a"])
        learner.learn_one(rows[0], "x")
        with self.assertRaisesRegex(ValueError, r"^rows\[2\]: column"):
            learner.partial_fit([*rows[:2], {"a": "many"}], "xyx")

    def test_of_columns_of_an_array_without_names(self):
        self.wrong("its columns are called x0, x1, and there is no 'km'; give a DataFrame",
                   millrace.OnlineRegressor(numeric=["km"]), numpy.zeros((3, 2)), [1, 2, 3])  # fmt: skip
        self.wrong("rows have the shape (3,); give two dimensions", millrace.OnlineRegressor(), [1, 2, 3], [1, 2, 3])

    def test_labels_may_be_a_frame_of_one_column(self):
        x, y = numpy.arange(6.0).reshape(6, 1), pandas.DataFrame({"y": list("uvuvuv"), "z": 1})
        learner = millrace.OnlineClassifier().fit(x, y[["y"]])
        self.assertEqual(learner.classes_.tolist(), ["u", "v"])
        self.wrong("the labels are a frame of 2 columns; give one", learner, x, y)


class Settings(unittest.TestCase):
    def test_class_weights_are_of_classes_and_not_negative(self):
        rows, labels = [{"a": i} for i in range(4)], ["x", "y"] * 2
        for weights, text in (({"x": -1}, "class_weight of 'x' is -1; give a number of 0 to 1e6"),
                              ({"x": math.nan}, "class_weight of 'x' is nan"),
                              ({"x": "2"}, "class_weight of 'x' is '2'"),
                              ({"z": 2}, "class_weight has 'z', which is no class; known are 'x', 'y'"),
                              ({"x": 0, "y": 0}, "class_weight leaves no class to learn from")):  # fmt: skip
            for classes in (None, ["x", "y"]):
                with self.assertRaisesRegex(ValueError, text):
                    millrace.OnlineClassifier(class_weight=weights, classes=classes).fit(rows, labels)
                learner = millrace.OnlineClassifier(class_weight=weights, classes=classes, first_rows=4)
                with self.assertRaisesRegex(ValueError, text):
                    for row, label in zip(rows, labels, strict=True):
                        learner.learn_one(row, label)
        learner = millrace.OnlineClassifier(class_weight={"y": numpy.float32(2), "z": 3}, first_rows=4)
        for row, label in zip(rows, "xxyz", strict=True):
            learner.learn_one(row, label)
        self.assertEqual(learner.classes_.tolist(), ["x", "y", "z"])

    def test_a_limit_of_huber_is_above_zero(self):
        for limit in (-1, 0, math.nan, "1"):
            with self.assertRaisesRegex(ValueError, f"huber_limit is {limit!r}; give a number of 0.001 to 1e6"):
                millrace.OnlineRegressor(loss="huber", huber_limit=limit).fit([[1]], [1])

    def test_a_number_that_is_too_large_is_an_error_of_its_row(self):
        for number in (10**400, decimal.Decimal("1e400")):
            with self.assertRaisesRegex(ValueError, r'rows\[0\]: column "a": .* is beyond the range of a double'):
                millrace.OnlineRegressor().fit([{"a": number}], [1])


if __name__ == "__main__":
    unittest.main()
