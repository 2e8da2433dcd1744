"""What the data set scripts share."""

import argparse
import csv
import io
import os


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """The description as it was written, and every default."""


def fraction(text):
    value = float(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError("must be at least 0 and below 1")
    return value


def csv_line(cells):
    """One line of CSV, without its end."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()


def write_lines(folder, name, header, lines, holdout):
    """Writes NAME.csv and, if holdout > 0, NAME-train.csv and NAME-test.csv (the last share)."""
    os.makedirs(folder, exist_ok=True)
    parts = {name: lines}
    if holdout > 0:
        cut = int(len(lines) * (1 - holdout))
        parts[name + "-train"], parts[name + "-test"] = lines[:cut], lines[cut:]
    for part, its_lines in parts.items():
        path = os.path.join(folder, part + ".csv")
        # Under another name first: a file that is there is whole.
        with open(path + ".new", "w", newline="", encoding="utf-8") as file:
            file.write("\n".join([header, *its_lines, ""]))
        os.replace(path + ".new", path)
        print(f"{path}: {len(its_lines)} rows")
