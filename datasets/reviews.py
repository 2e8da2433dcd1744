#!/usr/bin/env python3
"""Prepares the Amazon Fine Food Reviews, which you download yourself (Kaggle, "Amazon Fine Food
Reviews", Reviews.csv, CC0 by its page; J. McAuley and J. Leskovec, WWW 2013).

The task: the score (1 to 5) from the text. The rows are put in order of Time (ties as in the
file), the columns about the author are left out, and the last part is the test set. Rows without
one of the columns or with another score are left out and counted.

Two thirds of the scores are 5. With --balance as many reviews of each score stay as the rarest score has:
reviews of the frequent ones are removed at random (with a fixed seed), and the scores before and after
are printed.

Written to DIR: reviews.csv and, with --holdout, reviews-train.csv and reviews-test.csv, with the
columns Score, Time, Summary, Text. With --balance also reviews-balanced.csv, and its -train and -test.
"""

import argparse
import csv
import sys

from balance import balanced, histogram
from common import HelpFormatter, csv_line, fraction, write_lines

COLUMNS = ["Score", "Time", "Summary", "Text"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument("reviews", metavar="FILE", help="the downloaded Reviews.csv")
    parser.add_argument("--out", metavar="DIR", default="build/data", help="where to write")
    parser.add_argument("--holdout", metavar="SHARE", type=fraction, default=0.2,
                        help="write the last SHARE of the rows to a test file as well; 0: do not")
    parser.add_argument("--rows", metavar="N", type=int, help="only the first N rows in time")
    parser.add_argument("--balance", action="store_true",
                        help="write a file with equally many reviews of each score as well")
    options = parser.parse_args()

    csv.field_size_limit(1 << 24)
    rows, left_out = [], 0
    try:
        with open(options.reviews, newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            absent = [name for name in COLUMNS if name not in (reader.fieldnames or [])]
            if absent:
                sys.exit(f"reviews.py: {options.reviews} has no column {', '.join(absent)}")
            for row in reader:
                cells = [row[name] for name in COLUMNS]
                if None in cells or cells[0] not in ("1", "2", "3", "4", "5") or not cells[1].isdecimal():
                    left_out += 1
                    continue
                rows.append(cells)
    except OSError as error:
        sys.exit(f"reviews.py: {error.strerror}: {options.reviews}")
    rows.sort(key=lambda cells: int(cells[1]))
    rows = rows[:options.rows]
    lines = [csv_line(cells) for cells in rows]
    write_lines(options.out, "reviews", csv_line(COLUMNS), lines, options.holdout)
    print(f"{len(lines)} reviews; {left_out} unreadable rows left out")
    if options.balance:
        scores = [cells[0] for cells in rows]
        kept = balanced(scores)
        write_lines(options.out, "reviews-balanced", csv_line(COLUMNS), [lines[i] for i in kept], options.holdout)
        after = histogram(scores[i] for i in kept)
        for score, before in histogram(scores).items():
            print(f"score {score}: {before} before, {after[score]} after")


if __name__ == "__main__":
    main()
