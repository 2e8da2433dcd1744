#!/usr/bin/env python3
"""Generates reviews: texts whose words depend on a score of 1 to 5, for when no real ones are at hand.

The scores are as unequal as those of the Amazon Fine Food Reviews: 9, 6, 8, 14 and 63 % of the rows. A
text has 15 to 150 made-up words by Zipf's law, and repeats some of its own. One word of ten speaks: it
is more frequent in texts of high scores, or of low ones. How a text speaks is its score with noise,
so neighbouring scores are easily confused, as real ones are. Every row is drawn from the seed and
nothing else.

Written to DIR: made-reviews.csv and, with --holdout, made-reviews-train.csv and made-reviews-test.csv,
with the columns of reviews.py: Score, Time, Summary, Text.
"""

import argparse
import itertools
import math
import random

from common import HelpFormatter, csv_line, fraction, write_lines

SCORES = (1, 2, 3, 4, 5)
SHARES = (0.09, 0.06, 0.08, 0.14, 0.63)
HEADER = ("Score", "Time", "Summary", "Text")
WORDS = 6000  # of the vocabulary
SPEAKS_EVERY = 10
STRENGTH = 0.8  # a speaking word is e to the power of this, for each step of the score, as frequent
NOISE = 0.5  # of how a text speaks, in steps of the score
REPEATS = 0.15  # of a text's words are some that it has already
BEGIN_S, EVERY_S = 1_300_000_000, 600  # Time: of the first review, and between two


def vocabulary():
    """Made-up words; frequent ones are short, as in a language."""
    consonants, vowels = "bcdfghklmnprstvz", "aeiou"
    words = []
    for rank in range(WORDS):
        word, rest = "", rank
        while True:
            word += consonants[rest % len(consonants)]
            rest //= len(consonants)
            word += vowels[rest % len(vowels)]
            rest //= len(vowels)
            if rest == 0:
                break
        words.append(word)
    return words


def weights(score):
    """Of each word, cumulative, in a text that speaks like `score`."""
    each = []
    for rank in range(WORDS):
        weight = 1 / (rank + 3)
        if rank % SPEAKS_EVERY == SPEAKS_EVERY - 1:
            sense = 1 if rank // SPEAKS_EVERY % 2 else -1
            weight *= math.exp(STRENGTH * sense * (score - 3))
        each.append(weight)
    return list(itertools.accumulate(each))


def texts(rows, seed):
    """Yields the cells of each row."""
    draw = random.Random(seed)
    words = vocabulary()
    tables = {score: weights(score) for score in SCORES}
    shares = list(itertools.accumulate(SHARES))
    for row in range(rows):
        score = draw.choices(SCORES, cum_weights=shares)[0]
        mood = min(5, max(1, round(score + draw.gauss(0, NOISE))))
        count = min(150, max(15, round(math.exp(draw.gauss(3.9, 0.5)))))
        said = draw.choices(words, cum_weights=tables[mood], k=count)
        for i in range(1, count):
            if draw.random() < REPEATS:
                said[i] = said[draw.randrange(i)]
        yield [score, BEGIN_S + row * EVERY_S, " ".join(said[:4]), " ".join(said)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument("--out", metavar="DIR", default="build/data", help="where to write")
    parser.add_argument("--rows", metavar="N", type=int, default=20_000, help="reviews")
    parser.add_argument("--seed", metavar="N", type=int, default=1, help="of all that is drawn")
    parser.add_argument("--holdout", metavar="SHARE", type=fraction, default=0.0,
                        help="write the last SHARE of the rows to a test file as well; 0: do not")
    options = parser.parse_args()
    lines = [csv_line(cells) for cells in texts(options.rows, options.seed)]
    write_lines(options.out, "made-reviews", csv_line(HEADER), lines, options.holdout)


if __name__ == "__main__":
    main()
