#!/usr/bin/env python3
"""Prepares the digits data: 1,797 pictures of handwritten digits, 8 x 8 pixels of 0 to 16.

Source: the PyPI package scikit-learn (BSD), of which only the data file is read; nothing of it is
imported, so `pip install --no-deps scikit-learn` is enough. The columns are `digit` (the label, 0
to 9) and p00 to p77 (row and column of the pixel), in the order of the file; the last part of it
is the test set.

Written to DIR: digits.csv and, with --holdout, digits-train.csv and digits-test.csv.
"""

import argparse
import gzip
import importlib.util
import os
import sys

from common import HelpFormatter, csv_line, fraction, write_lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument("--out", metavar="DIR", default="build/data", help="where to write")
    parser.add_argument("--holdout", metavar="SHARE", type=fraction, default=0.2,
                        help="write the last SHARE of the rows to a test file as well; 0: do not")
    options = parser.parse_args()

    spec = importlib.util.find_spec("sklearn")
    if spec is None or spec.origin is None:
        sys.exit("digits.py: this Python lacks the package scikit-learn (pip install --no-deps scikit-learn)")
    header = ["digit"] + [f"p{row}{column}" for row in range(8) for column in range(8)]
    lines = []
    path = os.path.join(os.path.dirname(spec.origin), "datasets", "data", "digits.csv.gz")
    with gzip.open(path, "rt", encoding="ascii") as file:
        for line in file:
            *pixels, digit = (f"{float(cell):g}" for cell in line.split(","))
            lines.append(csv_line([digit] + pixels))
    write_lines(options.out, "digits", csv_line(header), lines, options.holdout)


if __name__ == "__main__":
    main()
