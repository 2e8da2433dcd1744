#!/usr/bin/env python3
"""Generates two streams that no sum over the columns can express, for when a model has to be chosen.

squares.csv: a point (a, b) of the unit square. Its class is yes if both are below one half or both are
not; a tenth of the classes are turned round. ratings.csv: a user and an item of which both have three
hidden factors. The more their product is, the likelier is liked=yes. Every row is drawn from the seed
and nothing else.
"""

import argparse
import math
import random

from common import HelpFormatter, csv_line, write_lines

USERS, ITEMS, FACTORS = 300, 200, 3
TURNED = 0.1


def squares(draw, rows):
    for _ in range(rows):
        a, b = draw.random(), draw.random()
        is_yes = ((a < 0.5) == (b < 0.5)) != (draw.random() < TURNED)
        yield [f"{a:.4f}", f"{b:.4f}", "yes" if is_yes else "no"]


def ratings(draw, rows):
    users, items = ([[draw.gauss(0, 1) for _ in range(FACTORS)] for _ in range(count)]
                    for count in (USERS, ITEMS))
    for _ in range(rows):
        user, item = draw.randrange(USERS), draw.randrange(ITEMS)
        fit = sum(x * y for x, y in zip(users[user], items[item]))
        likes = draw.random() < 1 / (1 + math.exp(-2 * fit))
        yield [f"u{user}", f"i{item}", "yes" if likes else "no"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument("--out", metavar="DIR", default="build/data", help="where to write")
    parser.add_argument("--rows", type=int, default=20_000, help="of squares; there are three times as many ratings")
    parser.add_argument("--seed", type=int, default=1, help="of the generator")
    options = parser.parse_args()
    draw = random.Random(options.seed)
    for name, header, rows in (("squares", "a,b,class", squares(draw, options.rows)),
                               ("ratings", "user,item,liked", ratings(draw, 3 * options.rows))):
        write_lines(options.out, name, header, [csv_line(row) for row in rows], 0)


if __name__ == "__main__":
    main()
