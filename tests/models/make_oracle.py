#!/usr/bin/env python3
"""Makes (or with --check compares) the files in oracle/: what scikit-learn says.

The tests compare Millrace's models with these files, so that they need no Python themselves.

oracle/digits.txt               scikit-learn's digits, one row a line: the class, a space, and the
                                64 pixels (0 to 16) as characters 0-9a-g. The data set comes with
                                scikit-learn (BSD 3-Clause License) and is the test set of UCI's
                                Optical Recognition of Handwritten Digits (CC BY 4.0;
                                E. Alpaydin, C. Kaynak, 1998).
oracle/digits_coefficients.txt  LogisticRegression(C) on all of digits, to convergence: a line with
                                C, then a line per class: 64 coefficients and the intercept, each
                                less its mean over the classes (softmax fixes them only up to that).
                                First for the raw pixels, then the same for pixels that went
                                through StandardScaler and were clipped to +-5, as Millrace does.
oracle/evaluation.txt           figures of merit of random predictions, and the confusion matrix.
                                Probabilities are whole 4096ths, so that the bins of Millrace's
                                histogram lose nothing.

Needs numpy and scikit-learn.
"""

import argparse
import pathlib
import sys

import numpy as np
from sklearn import metrics
from sklearn.datasets import load_digits
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

FOLDER = pathlib.Path(__file__).parent / "oracle"
PIXELS = "0123456789abcdefg"
C = 0.01
UNITS = 4096


def digits():
    data = load_digits()
    lines = []
    for row, label in zip(data.data.astype(int), data.target):
        lines.append(f"{label} " + "".join(PIXELS[pixel] for pixel in row))
    return "\n".join(lines) + "\n"


def centred_coefficients(features, labels):
    model = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-12, max_iter=1000)
    model.fit(features, labels)
    table = np.column_stack([model.coef_, model.intercept_])
    table -= table.mean(axis=0)
    lines = [str(C)]
    # + 0.0 turns -0.0 into 0.0.
    lines += [" ".join(f"{value + 0.0:.7f}" for value in row.round(7)) for row in table]
    return "\n".join(lines) + "\n"


def digits_coefficients():
    data = load_digits()
    scaled = np.clip(StandardScaler().fit_transform(data.data), -5, 5)
    return centred_coefficients(data.data, data.target) + centred_coefficients(scaled, data.target)


def random_units(random, classes, sharpness):
    """Shares of 4096, at least one each: from nearly even to nearly certain."""
    shares = random.dirichlet(np.full(classes, sharpness))
    units = 1 + np.floor(shares * (UNITS - classes)).astype(int)
    units[random.integers(classes)] += UNITS - units.sum()
    return units


def calibration_error(probabilities, truth, bins=15):
    """Of equal bins, by its definition (Guo et al. 2017); scikit-learn has none."""
    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == truth
    edges = np.arange(1, bins) / bins
    bin_of = np.searchsorted(edges, confidence, side="right")
    return sum(
        (bin_of == b).mean() * abs(right[bin_of == b].mean() - confidence[bin_of == b].mean())
        for b in set(bin_of)
    )


def evaluation_case(name, random, classes, rows, sharpness, labels, hits=0.0):
    units = np.array([random_units(random, classes, sharpness) for _ in range(rows)])
    probabilities = units / UNITS
    truth = random.choice(labels, size=rows)
    predicted = probabilities.argmax(axis=1)
    truth = np.where(random.random(rows) < hits, predicted, truth)
    prior = DummyClassifier(strategy="prior").fit(np.zeros((rows, 1)), truth)
    prior_probabilities = prior.predict_proba(np.zeros((rows, 1)))
    is_two_sided = classes == 2 and len(set(truth)) == 2
    figures = [
        metrics.accuracy_score(truth, predicted),
        metrics.f1_score(truth, predicted, average="macro", zero_division=0),
        metrics.f1_score(truth, predicted, average="weighted", zero_division=0),
        metrics.log_loss(truth, probabilities, labels=range(classes)),
        metrics.roc_auc_score(truth, probabilities[:, 1]) if is_two_sided else -1.0,
        prior.score(np.zeros((rows, 1)), truth),
        metrics.log_loss(truth, prior_probabilities, labels=sorted(set(truth)))
        if len(set(truth)) > 1
        else 0.0,
        metrics.average_precision_score(truth, probabilities[:, 1]) if is_two_sided else -1.0,
        calibration_error(probabilities, truth),
    ]
    confusion = metrics.confusion_matrix(truth, predicted, labels=range(classes))
    lines = [f"{name} {classes} {rows}", " ".join(f"{figure:.12f}" for figure in figures)]
    lines.append(" ".join(map(str, confusion.ravel())))
    lines += [f"{t} " + " ".join(map(str, u)) for t, u in zip(truth, units)]
    return "\n".join(lines) + "\n"


def evaluation():
    random = np.random.default_rng(20240817)
    return "".join(
        [
            evaluation_case("two_classes", random, 2, 200, 1.0, [0, 1]),
            evaluation_case("two_classes_with_ties", random, 2, 100, 2000.0, [0, 1, 1]),
            evaluation_case("two_classes_one_present", random, 2, 20, 1.0, [1]),
            evaluation_case("five_classes", random, 5, 150, 0.5, [0, 1, 2, 3, 4, 4, 4]),
            evaluation_case("labels_of_three_of_five", random, 5, 40, 0.3, [0, 2, 3]),
            # Few rows of many classes: some occur neither in the labels nor in the predictions.
            evaluation_case("ten_classes_few_rows", random, 10, 8, 0.2, [1, 2, 7], hits=0.5),
            evaluation_case("one_row", random, 3, 1, 1.0, [2]),
        ]
    )


# Each file's maker, and how far its numbers may be from those of another version of scikit-learn.
FILES = {
    "digits.txt": (digits, 0.0),
    "digits_coefficients.txt": (digits_coefficients, 2e-5),
    "evaluation.txt": (evaluation, 1e-9),
}


def difference(expected, actual, tolerance):
    """The first difference of two texts, numbers compared within the tolerance; None if none."""
    expected_words, actual_words = expected.split(), actual.split()
    if len(expected_words) != len(actual_words):
        return f"{len(expected_words)} words in the file, {len(actual_words)} made anew"
    for number, (one, other) in enumerate(zip(expected_words, actual_words)):
        if one == other:
            continue
        try:
            is_near = abs(float(one) - float(other)) <= tolerance
        except ValueError:
            is_near = False
        if not is_near:
            return f"word {number}: {one} in the file, {other} made anew"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    arguments = parser.parse_args()
    failed = False
    for name, (make, tolerance) in FILES.items():
        path = FOLDER / name
        if not arguments.check:
            FOLDER.mkdir(exist_ok=True)
            path.write_text(make())
            continue
        found = difference(path.read_text(), make(), tolerance)
        if found is not None:
            print(f"{path}: {found}", file=sys.stderr)
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
