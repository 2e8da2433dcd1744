#!/usr/bin/env python3
"""What scikit-learn's HashingVectorizer makes of a Unicode corpus: the oracle of the text features.

Usage: make_oracle.py > hashing_oracle.txt     writes the oracle
       make_oracle.py --check hashing_oracle.txt   says whether it is what this program writes

Needs scikit-learn and Debian 12's Python (3.11), whose Unicode version features/unicode_tables.inc
has. Lines of the oracle (DIGEST is the murmurhash3_32 of some bytes, so tests need nothing else):

  unicode VERSION
  code_points FIRST DIGEST         of the tokens of all texts of code_point_texts() for the 4096
                                   code points from FIRST on, a line feed after each token and text
  text BUCKETS FEATURES DIGEST HEX of the features (pairs of uint32 index and float32 value) of the
                                   text HEX, in UTF-8; explicit zeros left out
"""

import argparse
import random
import struct
import sys
import unicodedata

from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.utils import murmurhash3_32

BLOCK = 4096
BEHIND_A_TEXT = "00"  # a token of no text of code_point_texts()


def code_point_texts(char):
    """Texts that show all that a tokenizer can see of a code point: whether it is a word character,
    its lower case, and how a capital sigma before it or after it becomes lower case."""
    return (f"_{char}_", f"a{char}", f"{char}\u03a3__", f"A{char}\u03a3__", f"__A\u03a3{char}",
            f"__A\u03a3{char}B")


def code_point_lines():
    analyze = HashingVectorizer().build_analyzer()
    for first in range(0, sys.maxunicode + 1, BLOCK):
        chars = (chr(code_point) for code_point in range(first, first + BLOCK)
                 if not 0xD800 <= code_point < 0xE000)  # surrogates are not in UTF-8
        # All at once takes a fraction of the time: a space ends a token and the surroundings of a sigma.
        texts = "".join(f"{text} {BEHIND_A_TEXT} " for char in chars for text in code_point_texts(char))
        shown = ("" if token == BEHIND_A_TEXT else token for token in analyze(texts))
        data = "\n".join([*shown, ""]).encode()
        yield f"code_points {first} {murmurhash3_32(data, seed=0)}"


def corpus():
    """Texts, always the same."""
    rng = random.Random(20240229)
    categories = {}
    for code_point in range(sys.maxunicode + 1):
        categories.setdefault(unicodedata.category(chr(code_point)), []).append(chr(code_point))
    del categories["Cs"]

    def word(*names):
        return "".join(rng.choice(categories[rng.choice(names)]) for _ in range(rng.randint(1, 9)))

    def ascii_word():
        letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
        return "".join(rng.choice(letters) for _ in range(rng.randint(1, 11)))

    yield from ("", " ", "a", "ab", "a b", "_", "__", "a_b", "don't", "e-mail 3.14 1,000",
                "\0\0ab\0")
    yield "ad1u66pi aivlts3m"  # both hash to -2**31, which has no magnitude in 32 signed bits
    yield "The quick brown fox jumps over the lazy dog. THE END! <br /><br />It's 100% fun_ny"
    # Sigma at the end of words, across apostrophes, colons and combining marks, alone, doubled.
    yield ("\u039f\u0394\u03a5\u03a3\u03a3\u0395\u03a5\u03a3 \u03a3 "
           "\u03a3\u03a3 A\u03a3 \u03a3A A\u03a3B")
    yield ("A\u03a3' A\u03a3'B A'\u03a3 A\u0301\u03a3\u0301 A\u03a3\u0301B "
           "1\u03a3 \u03b1.\u03a3 A\u03a3:::\u0345")
    yield "A" + "'" * 300 + "\u03a3" + "." * 300 + "B A" + "'" * 300 + "\u03a3" + "." * 300
    # Dotted and dotless i, sharp s, ligatures, titlecase digraphs, Kelvin and Angstrom signs.
    yield "\u0130stanbul \u0130\u0130 I\u0131\u0130i D\u0130YARBAKIR \u0130 a\u0130"
    yield ("\u1e9eSTRASSE stra\u00dfe \ufb03x \ufb01 \u01c4\u01c5\u01c6 "
           "\u212a\u212b \u2126hm \u023a\u023e")
    yield ("\u00e9 \u00e9t\u00e9 e\u0301te\u0301 \u00c9T\u00c9 na\u00efve \u00b5m "
           "\u00aa\u00ba x\u00b2 \u00bd\u00bc")
    # Digits and numerals of other scripts, CJK, Hangul, Devanagari with marks, emoji, flags.
    yield ("\u0661\u0662\u0663 \u0967\u0968 \u2160\u2161\u2170 \u2460\u2461 "
           "\u4e09\u5341 \U0001d7d8\U0001d7e9")
    yield ("\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8 "
           "\ud55c\uad6d\uc5b4 \u4e2d \U00020000\U0002a6d6")
    yield ("\u0939\u093f\u0928\u094d\u0926\u0940 \u0e44\u0e17\u0e22 "
           "\u05e2\u05d1\u05e8\u05d9\u05ea \u0627\u0644\u0639")
    yield ("\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 "
           "\U0001f1e9\U0001f1ea ok\U0001f44dok \u2764\ufe0f")
    yield ("\U00010400\U00010401 \U00010428 \U0001d400\U0001d401 "
           "\U0001e900\U0001e901 \U0010ffff\U0010fffe")
    yield "\u2028a\u2028bb\u0085cc\u00a0dd\ufeffee\u200bff\u00adgg"
    # Words longer than any buffer, and words at every place around the blocks of 64 bytes.
    yield "x" * 70000
    yield "\u00c4" * 5000 + " " + "\u00df" * 33
    for size in (1, 2, 3, 4, 5, 7, 8, 11, 12, 15, 16, 17, 31, 32, 33, 61, 62, 63, 64, 65, 66, 127,
                 128):
        yield "Q" * size
        yield " " * size + "Word" + " " * size + "\u00c9\u00e9"
        yield "Q" * size + " " + "Z" * size + "\U00010400" + "w" * size
    # Each general category, pure and between ASCII.
    for name in sorted(categories):
        for _ in range(4):
            yield " ".join(word(name) for _ in range(6))
            yield " ".join(ascii_word() + word(name) + ascii_word() for _ in range(4))
    # Scripts by their code point blocks, so that words are of one script.
    for start in list(range(0x80, 0x3000, 0x100)) + list(range(0xA000, 0x11000, 0x400)):
        chars = [chr(c) for c in range(start, start + 0x100) if not 0xD800 <= c < 0xE000]
        if chars:
            yield " ".join("".join(rng.choices(chars, k=rng.randint(1, 6))) for _ in range(8))
    # Mixes of everything, mostly letters.
    for _ in range(120):
        parts = []
        for _ in range(rng.randint(1, 20)):
            parts.append(rng.choice([ascii_word, ascii_word, lambda: word("Lu", "Ll", "Lt"),
                                     lambda: word("Lo", "Nd", "No", "Nl"),
                                     lambda: word("Mn", "Lu", "Lm", "Sk"),
                                     lambda: word(*categories)])())
            parts.append(rng.choice([" ", " ", "", "\n", ", ", "'", "-", "\u03a3", "\u0130"]))
        yield "".join(parts)


def text_lines():
    texts = list(corpus())
    # Few buckets make words collide and cancel out; more than 2^20 is another way of counting.
    for buckets, every in ((1024, 1), (3, 7), (1 << 18, 7), (5_000_011, 11)):
        chosen = texts[::every]
        matrix = HashingVectorizer(n_features=buckets).transform(chosen).tocsr()
        for row, text in enumerate(chosen):
            begin, end = matrix.indptr[row], matrix.indptr[row + 1]
            pairs = [(int(i), float(v)) for i, v in
                     zip(matrix.indices[begin:end], matrix.data[begin:end]) if v != 0]
            data = b"".join(struct.pack("<If", *pair) for pair in pairs)
            # A long run of one character is written as HEX*COUNT.
            runs = len(text) > 4000 and len(set(text)) == 1
            shown = f"{text[0].encode().hex()}*{len(text)}" if runs else text.encode().hex() or "-"
            yield f"text {buckets} {len(pairs)} {murmurhash3_32(data, seed=0)} {shown}"


def oracle():
    yield f"unicode {unicodedata.unidata_version}"
    yield from code_point_lines()
    yield from text_lines()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", metavar="FILE", help="compare FILE with the oracle made now")
    arguments = parser.parse_args()
    if arguments.check is None:
        for line in oracle():
            print(line)
        return
    with open(arguments.check, encoding="ascii") as file:
        stored = file.read().splitlines()
    if not stored or stored[0] != f"unicode {unicodedata.unidata_version}":
        sys.exit(f"{arguments.check} is of another Unicode version than this Python's, "
                 f"{unicodedata.unidata_version}: run Debian 12's Python 3.11")
    made = list(oracle())
    for number, (old, new) in enumerate(zip(stored, made), start=1):
        if old != new:
            sys.exit(f"{arguments.check}:{number}: stale\n  is        {old[:200]}\n"
                     f"  should be {new[:200]}")
    if len(stored) != len(made):
        sys.exit(f"{arguments.check} has {len(stored)} lines and should have {len(made)}")
    print(f"{arguments.check} is up to date: {len(made)} lines")


if __name__ == "__main__":
    main()
