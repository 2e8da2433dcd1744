#!/usr/bin/env python3
"""What docs/predict.py says of a small CSV: the oracle of the page docs/weights-file.md.

Usage: make_prediction_oracle.py > prediction_oracle.csv   writes the oracle
       make_prediction_oracle.py --check prediction_oracle.csv   says whether it is what this writes

prediction_oracle_test.cc computes the same probabilities by the project's own encoder, scaling and
model. Needs NumPy, SciPy and scikit-learn.
"""

import csv
import io
import pathlib
import sys

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "docs"))
import predict  # noqa: E402

CLASSES = ["no", "maybe", "yes"]
NUMERIC = ["n", "wide", "constant", "paid", "at.days"]
BOOLEANS = ["paid"]
TIMES = ["at"]
CATEGORICAL = ["c", "d", "c*d", "a=b\\", "c*b*n", "at.hour", "at.weekday*at.month", '"e*f"*c']
BINS = ["b:8", "n"]  # b is no numeric feature
BIN_EDGES = numpy.array([[-25, 1, 1e9], [0.5, numpy.nan, numpy.nan]])
BUCKETS = 7  # so few that keys collide
TEXT_BUCKETS = 16
# Count, mean and M2 of each numeric column; the test has the same.
MOMENTS = numpy.array([[10, 10, 4, 9, 20], [1.5, -2e6, 3, 0.5, 15000], [40, 9e12, 0, 2.25, 5e9]], dtype=float)
# Of a regression: the mean of the targets, the unit of the scores, and between which numbers estimates are.
TARGET = (100, 2, 98.5, 101)
TEXTS = ["", "The quick brown fox", "the THE thE, fox! \u00c9t\u00e9 \u0391\u03a3", "a b c", "x_1 3.14 don't",
         "na\u00efve \u65e5\u672c\u8a9e \U00010400\U00010401 fox fox"]
NUMBERS = ["1", " -2.5e1 ", "n/a", "", "1e9", "+.5", "nan", "-3000000"]
WORDS = ["yes", "F", "true", "", " N ", "on", "0", "TRUE"]
TIME_CELLS = ["2013-01-31", "1357034400", "2024-02-29T23:59:30.5+02:00", "", "NA", "1969-12-31 22:30",
              "1357034400250", "2023-12-31t10:00z", "2000-06-15T00:00-05:30"]
CELLS = ["UA", " UA\t", "", "a*b", "\\", "x=y", "caf\u00e9", "a,\"b\"\nc"]


def weights():
    count = 2 * len(NUMERIC) + BUCKETS + 2 * TEXT_BUCKETS + 1
    f, k = numpy.indices((count, len(CLASSES)))
    return (((f * 7919 + k * 104729) % 2001 - 1000) / 4000).astype("f4")


def rows():
    for i in range(48):
        yield {"n": NUMBERS[i % 8], "wide": NUMBERS[(i * 3 + 1) % 8], "constant": NUMBERS[(i // 3) % 8],
               "b": NUMBERS[(i * 5 + 3) % 8], "c": CELLS[i % 8], "d": CELLS[(i * 5 + i // 8) % 8], "a=b\\": CELLS[(i // 2) % 8],
               "e*f": CELLS[(i * 3) % 8], "paid": WORDS[(i * 3 + 2) % 8], "at": TIME_CELLS[(i * 2 + 1) % 9],
               "t": TEXTS[(i * 7) % 6], "u": TEXTS[(i * 5 + 1) % 6], "y": CLASSES[i % 3]}


def oracle():
    table = list(rows())
    features = {"numeric": NUMERIC, "moments": MOMENTS, "categorical": CATEGORICAL,
                "categorical_buckets": BUCKETS, "text": ["t", "u"], "text_buckets": TEXT_BUCKETS,
                "bins": BINS, "bin_edges": BIN_EDGES, "booleans": BOOLEANS, "times": TIMES}  # fmt: skip
    result = predict.probabilities(weights(), table, **features)
    estimates = predict.estimates(weights()[:, :1], table, TARGET, **features)[:, 0]
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*table[0], *("p " + name for name in CLASSES), "estimate"])
    for row, p, estimate in zip(table, result, estimates):
        writer.writerow([*row.values(), *(f"{x:.6f}" for x in p), f"{estimate:.5f}"])
    return out.getvalue()


def check_default_buckets():
    """Of categories and of each text: by what the rows of weights leave for hashed features."""
    many, few = 2**18, (4096, 1024)
    for asked, wanted in (((many, True, 0, None, None), (many, many)), ((many, False, 1, None, None), (many, many)),
                          ((2**18, False, 2, None, None), (2**17, 2**17)), ((4096, True, 0, None, None), (4096, 4096)),
                          ((1024, False, 1, None, None), few), ((4096 + 1024, True, 1, None, None), few),
                          ((7, False, 1, None, 7), (many, 7)), ((100 + 2**17, True, 1, 100, None), (100, 2**17)),
                          ((0, False, 0, None, None), (many, many))):  # fmt: skip
        if predict.buckets(*asked) != wanted:
            sys.exit(f"predict.buckets{asked} is {predict.buckets(*asked)}, not {wanted}")
    for asked in ((5000, True, 0, None, None), (100, True, 0, 99, None)):  # another --missing, say
        try:
            sys.exit(f"predict.buckets{asked} is {predict.buckets(*asked)}, but should be refused")
        except ValueError:
            pass


def main():
    if len(sys.argv) == 1:
        sys.stdout.write(oracle())
        return
    with open(sys.argv[2], encoding="utf-8", newline="") as file:
        stored = file.read()
    if stored != oracle():
        sys.exit(f"{sys.argv[2]} is stale")
    check_default_buckets()
    print(f"{sys.argv[2]} is up to date")


if __name__ == "__main__":
    main()
