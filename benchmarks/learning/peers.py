"""What another learner makes of a set with its defaults: peers.py NAME SET.json

    river   StandardScaler on the numeric columns, then LogisticRegression; of more classes than two
            SoftmaxRegression; of a regression LinearRegression
    vw      Vowpal Wabbit's driver; --loss_function logistic, of more classes than two with --oaa; of a
            regression nothing
    prior   the frequencies of the classes so far, or the mean

A set that says "learn_rows" is learnt up to that row; the others are only predicted. All get the same
columns: a category or a cross is a feature "column=value", a text is its words by
their counts, scaled to length 1. Every row is predicted before it is learnt. Prints one line of JSON,
as learn_csv does.
"""

import collections
import csv
import itertools
import json
import math
import os
import re
import sys
import tempfile
import time

import figures

WORD = re.compile(r"\w\w+")


class Rows:
    """A set's CSV as features of peers."""

    def __init__(self, described):
        self.described = described
        self.regression = described["regression"]
        self.learn_rows = described.get("learn_rows", math.inf)
        self.classes = [] if self.regression else self._find_classes()
        self.truths = [self._truth(row[described["label"]]) for row in self.records()]

    def records(self):
        csv.field_size_limit(1 << 24)
        with open(self.described["path"], newline="", encoding="utf-8") as file:
            yield from csv.DictReader(file)

    def _find_classes(self):
        found = {row[self.described["label"]] for row in self.records()}
        try:
            return sorted(found, key=float)
        except ValueError:
            return sorted(found)

    def _truth(self, cell):
        return float(cell) if self.regression else self.classes.index(cell)

    def __len__(self):
        return len(self.truths)

    def features(self):
        """Of each row: numbers by column, and values by other features."""
        numeric, text = self.described["numeric"], self.described["text"]
        terms = [(term, term.split("*")) for term in self.described["categorical"]]
        for row in self.records():
            others = {f"{term}=" + "*".join(row[name] for name in names): 1.0 for term, names in terms}
            if text:
                counts = collections.Counter(WORD.findall(row[text].lower()))
                length = math.sqrt(sum(count * count for count in counts.values())) or 1.0
                others.update((f"w_{word}", count / length) for word, count in counts.items())
            yield {name: float(row[name]) for name in numeric if row[name]}, others


def softmax(scores):
    most = max(scores)
    parts = [math.exp(score - most) for score in scores]
    total = sum(parts)
    return [part / total for part in parts]


def log_sigmoid(score):
    return -math.log1p(math.exp(-score)) if score > 0 else score - math.log1p(math.exp(score))


def river(rows):
    from river import linear_model, preprocessing
    scaler = preprocessing.StandardScaler()
    count = len(rows.classes)
    if rows.regression:
        learner = linear_model.LinearRegression()
    elif count == 2:
        learner = linear_model.LogisticRegression()
    else:
        learner = linear_model.SoftmaxRegression()
        for k in range(count):
            learner.weights[k]  # a class that has not come yet
    predictions = []
    for truth, (numbers, others) in zip(rows.truths, rows.features()):
        x = {**scaler.transform_one(numbers), **others}
        if rows.regression:
            predictions.append(learner.predict_one(x))
        else:
            told = learner.predict_proba_one(x)
            predictions.append([told.get(bool(k) if count == 2 else k, 0.0) for k in range(count)])
        if len(predictions) > rows.learn_rows:
            continue
        scaler.learn_one(numbers)
        x = {**scaler.transform_one(numbers), **others}
        learner.learn_one(x, bool(truth) if count == 2 else truth)
    return predictions


def vw_name(name):
    return re.sub(r"[\s:|]", "_", name)


def vw_line(label, numbers, others):
    words = [f"{vw_name(name)}:{value!r}" for name, value in numbers.items() if value]
    words += [vw_name(name) if value == 1 else f"{vw_name(name)}:{value:.8g}"
              for name, value in others.items()]
    return f"{label} | {' '.join(words)}\n"


def vw_predictions(lines, classes):
    """Of the driver's file: margins, or of more classes than two their scores."""
    for line in lines:
        if not classes:
            yield float(line.split()[0])
        elif classes == 2:
            p = math.exp(log_sigmoid(float(line.split()[0])))
            yield [1 - p, p]
        else:
            scores = dict(word.split(":") for word in line.split())
            yield softmax([log_sigmoid(float(scores[str(k + 1)])) for k in range(classes)])


def vw(rows):
    import vowpalwabbit
    count = len(rows.classes)
    with tempfile.TemporaryDirectory(prefix="millrace-vw-") as folder:
        source, target = os.path.join(folder, "rows.vw"), os.path.join(folder, "predictions")
        with open(source, "w", encoding="utf-8") as file:
            for row, (truth, (numbers, others)) in enumerate(zip(rows.truths, rows.features())):
                label = truth if rows.regression else truth + 1 if count > 2 else 2 * truth - 1
                if row >= rows.learn_rows:
                    label = ""  # which is not learnt
                file.write(vw_line(label, numbers, others))
        words = ["--no_stdin", "--quiet", "-d", source, "-p", target]
        if not rows.regression:
            words += ["--loss_function", "logistic"]
        if count > 2:
            words += ["--oaa", str(count), "--scores"]
        vowpalwabbit.Workspace(" ".join(words)).finish()
        with open(target, encoding="utf-8") as file:
            predictions = list(vw_predictions(file, count))
    if len(predictions) != len(rows):
        raise RuntimeError(f"{len(predictions)} predictions of {len(rows)} rows")
    return predictions


def prior(rows):
    if rows.regression:
        sums = itertools.accumulate(rows.truths, initial=0.0)
        return [total / max(1, row) for row, total in zip(range(len(rows)), sums)]
    counts = [1] * len(rows.classes)
    predictions = []
    for row, truth in enumerate(rows.truths):
        total = sum(counts)
        predictions.append([count / total for count in counts])
        counts[truth] += row < rows.learn_rows
    return predictions


PEERS = {"prior": prior, "river": river, "vw": vw}


def result(name, described):
    rows = Rows(described)
    began = time.process_time()
    predictions = PEERS[name](rows)
    seconds = time.process_time() - began
    of = figures.of_regression if rows.regression else figures.of_classes
    return {"rows": len(rows), "seconds_per_row": seconds / len(rows),
            **figures.both(of, rows.truths, predictions)}


if __name__ == "__main__":
    with open(sys.argv[2], encoding="utf-8") as description:
        print(json.dumps(result(sys.argv[1], json.load(description))))
