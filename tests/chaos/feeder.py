"""feeder.py: rows of CSV on standard output, without an end, as fast as they are read.

Most columns come again and again; `id` is a new one every few rows and never comes back, as users or
articles of a real stream do."""

import random
import sys

ROWS_OF_AN_ID = 5
SHOPS = "north", "south", "east", "west"
WORDS = "good", "bad", "plain", "quick", "slow"


def rows(draw, count):
    """(verdict and what it follows from), to be used again and again."""
    made = []
    for _ in range(count):
        price, shop = draw.gauss(1e5, 2e4), draw.randrange(len(SHOPS))
        words = [draw.choice(WORDS) for _ in range(draw.randint(1, 6))]
        score = (price - 1e5) / 2e4 + shop - 1.5 + words.count("good") - words.count("bad")
        made.append((f"{'high' if score + draw.gauss(0, 1) > 0 else 'low'},{price:.2f},"
                     f"{draw.random() * 1e-3:.6f},{SHOPS[shop]},{draw.randrange(7)},"
                     f"{' '.join(words)}\n").encode())
    return made


def main():
    out, loop, i = sys.stdout.buffer, rows(random.Random(1), 5000), 0
    out.write(b"id,verdict,price,weight,shop,day,words\n")
    try:
        while True:
            out.write(b"%d,%b" % (i // ROWS_OF_AN_ID, loop[i % len(loop)]))
            i += 1
    except (BrokenPipeError, KeyboardInterrupt):
        return


if __name__ == "__main__":
    main()
