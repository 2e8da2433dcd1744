"""Learners that are pickled or copied go on to the bit as the ones they were made of."""

import copy
import pickle
import unittest

import numpy
import test_online

import millrace

ROWS = test_online.ROWS[:600]


class Pickled(unittest.TestCase):
    def learners(self):
        """Of every form of the state, with the labels that they learn."""
        columns, labels = test_online.COLUMNS, [label for _, label, _ in ROWS]
        targets = [target for *_, target in ROWS]
        yes = ["yes" if label == "high" else "no" for label in labels]
        yield millrace.OnlineClassifier(**columns), labels  # with embedding rows, since it is wide
        yield millrace.OnlineClassifier(numeric=["price"], categorical=["day"], categorical_buckets=64), yes
        yield millrace.OnlineClassifier(numeric=["price"], ids=["shop", "day"]), labels
        yield millrace.OnlineClassifier(numeric=["weight"], class_weight="balanced", scaling=False), labels
        yield millrace.OnlineClassifier(numeric=["weight"], class_weight={"high": 3, "low": 0.5}), labels
        yield millrace.OnlineClassifier(first_rows=100), labels
        for loss in ("squared", "absolute", "huber"):
            yield millrace.OnlineRegressor(**columns, loss=loss), targets

    def scores(self, learner):
        rows = [row for row, *_ in ROWS[:50]]
        if isinstance(learner, millrace.OnlineRegressor):
            return learner.predict(rows)
        return learner.predict_proba(rows)

    def check_same(self, copied, learner):
        numpy.testing.assert_array_equal(self.scores(copied), self.scores(learner))
        self.assertEqual(copied.figures(), learner.figures())
        self.assertEqual(copied.columns_, learner.columns_)

    def test_learners_predict_and_learn_on_to_the_bit(self):
        for learner, labels in self.learners():
            for (row, *_), label in zip(ROWS[:400], labels, strict=False):
                learner.learn_one(row, label)
            for make in (lambda each: pickle.loads(pickle.dumps(each)), copy.deepcopy):
                copied = make(learner)
                self.check_same(copied, learner)
                before = self.scores(learner)
                on = make(learner)
                for (row, *_), label in zip(ROWS[400:], labels[400:], strict=True):
                    copied.learn_one(row, label)
                    on.learn_one(row, label)
                self.check_same(copied, on)
                numpy.testing.assert_array_equal(self.scores(learner), before)  # which has learnt nothing of it
            for (row, *_), label in zip(ROWS[400:], labels[400:], strict=True):
                learner.learn_one(row, label)
            self.check_same(copied, learner)

    def test_a_learner_of_no_rows_or_one_begins_there(self):
        for kind, at in ((millrace.OnlineClassifier, 1), (millrace.OnlineRegressor, 2)):
            for count in (0, 1):
                learner = kind(**test_online.COLUMNS)
                for row in ROWS[:count]:
                    learner.learn_one(row[0], row[at])
                copied = pickle.loads(pickle.dumps(learner))
                for row in ROWS:
                    learner.learn_one(row[0], row[at])
                    copied.learn_one(row[0], row[at])
                self.check_same(copied, learner)

    def test_the_bytes_of_a_state_are_the_same_each_time(self):
        learner = millrace.OnlineClassifier(**test_online.COLUMNS).fit(
            [row for row, *_ in ROWS], [label for _, label, _ in ROWS]
        )
        session = learner._session
        copied = pickle.loads(pickle.dumps(session))
        self.assertEqual(copied.__getstate__(), session.__getstate__())

    def test_bytes_that_are_none_of_a_learner_are_a_value_error(self):
        learner = millrace.OnlineRegressor(numeric=["price"]).fit(
            [row for row, *_ in ROWS], [target for *_, target in ROWS]
        )
        session = type(learner._session)
        state = learner._session.__getstate__()
        damaged = bytearray(state)
        damaged[len(state) // 2] ^= 1
        for wrong, why in ((b"", "there are 0"), (b"ab", "there are 2"), (state[:-1], "the checksum is wrong"),
                           (bytes(damaged), "the checksum is wrong"), (b"x" * 100, "the checksum is wrong")):  # fmt: skip
            with self.assertRaisesRegex(ValueError, f"these bytes are no learner of Millrace: {why}"):
                session.__new__(session).__setstate__(wrong)
        with self.assertRaises(TypeError):
            session.__new__(session).__setstate__("text")


if __name__ == "__main__":
    unittest.main()
