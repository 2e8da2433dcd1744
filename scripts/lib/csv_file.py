"""Reads a CSV as CsvProducer does: gzip and zstd are known by the first bytes, the delimiter by the header."""

import csv
import gzip
import io
import itertools
import re
import subprocess
import sys
import zlib

GZIP, ZSTD = b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd"


def unpacked(path):
    """The bytes of the file as a stream."""
    with open(path, "rb") as file:
        start = file.read(4)
    if start.startswith(GZIP):
        return gzip.open(path)
    if start == ZSTD:
        return subprocess.Popen(["zstd", "-dcq", "--", path], stdout=subprocess.PIPE).stdout
    return open(path, "rb")


def delimiter_of(header):
    """formats/csv_dialect.h has the rule."""
    bare = re.sub(r'"[^"]*"', "", header)
    counts = sorted((bare.count(each), each) for each in ",;\t|")
    return counts[-1][1] if counts[-1][0] > counts[-2][0] else ","


def records(path, errors="strict"):
    """Each one as a list, the header first; empty lines are none. errors: of bytes that are not UTF-8."""
    csv.field_size_limit(2**31 - 1)
    with io.TextIOWrapper(unpacked(path), encoding="utf-8-sig", errors=errors, newline="") as lines:
        header = next((line for line in lines if line.strip("\r\n")), "")
        delimiter = delimiter_of(header)
        if header.strip("\r\n") != f"sep={delimiter}":  # a line for spreadsheet programs
            lines = itertools.chain([header], lines)
        yield from filter(None, csv.reader(lines, delimiter=delimiter))


if __name__ == "__main__":  # FILE: the number of its rows
    try:
        print(sum(1 for _ in records(sys.argv[1], "replace")) - 1)
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        sys.exit(f"the rows of {sys.argv[1]} cannot be counted: {error}")
