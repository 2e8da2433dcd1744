#!/usr/bin/env python3
"""Predictions for a CSV's rows, by the weights file of a job with --model softmax.

    predict.py WEIGHTS.npy ROWS.csv --classes no,yes | --regression [--numeric A,B]
        [--categorical C,C*A] [--bins A,all:8] [--categorical-buckets 4096] [--text COLUMN]
        [--text-buckets 1024] [--scaling none] [--missing mean|mean-only|reject] [--missing-tokens A,B]

Give the features as CsvProducer was given them, and the classes in the job's order. Prints a CSV with a
column for each class's probability, or with the estimate. docs/weights-file.md says what is computed. Needs NumPy and scikit-learn.
"""

import argparse
import csv
import os
import re
import sys

import numpy
import scipy.sparse
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.utils import murmurhash3_32


MISSING_TOKENS = ("NA", "N/A", "#N/A", "NaN", "null", "none", "?", "-")


def number(text):
    try:
        return float(text)
    except ValueError:
        return None


def parsed_numbers(cells, tokens):
    """Columns of text as numbers, NaN where the text means that there is none."""
    names = {token.strip(" \t").lower() for token in ("", *tokens)}
    numbers = {number(name) for name in names} - {None}

    def parsed(cell):
        text = cell.strip(" \t").lower()
        return numpy.nan if text in names or number(text) in numbers else float(text)

    return numpy.array([[parsed(cell) for cell in row] for row in cells])


def numeric_features(values, moments):
    """Scaled, unless `moments` (count, mean, M2) is None."""
    if moments is None:
        return numpy.nan_to_num(values, nan=0.0)
    count, mean, m2 = moments
    with numpy.errstate(invalid="ignore", divide="ignore"):
        deviation = numpy.sqrt(m2 / count)
        varies = deviation > 4 * numpy.finfo(float).eps * abs(mean)
        scaled = numpy.clip((values - mean) / deviation, -5, 5)
    return numpy.where(varies & ~numpy.isnan(values), scaled, 0.0)


def binned_columns(bins, numeric):
    """The columns that --bins names, in the order of their edges."""
    names = [item.strip(" \t") for item in bins]
    names = [re.sub(r"[ \t]*:[0-9]+$", "", name) for name in names]
    rest = [name for name in names if name != "all"]
    return [c for c in numeric if c not in rest] + rest if "all" in names else rest


def with_bins(rows, columns, edges, tokens):
    """The same rows, but in these columns the number of the bin, or nothing if the value is missing."""
    rows = [dict(row) for row in rows]
    values = parsed_numbers([[row[column] for column in columns] for row in rows], tokens)
    for i, column in enumerate(columns):
        reached = numpy.searchsorted(edges[i][~numpy.isnan(edges[i])], values[:, i], side="right")
        for row, value, number_of_bin in zip(rows, values[:, i], reached):
            row[column] = "" if numpy.isnan(value) else str(number_of_bin)
    return rows


def escaped(text, special):
    return "".join("\\" + c if c in special else c for c in text)


def categorical_key(term, row):
    """What is hashed: "carrier=UA", or "carrier*origin=UA*EWR" of a cross."""
    columns = [column.strip(" \t") for column in term.split("*")]
    values = [row[column].strip(" \t") for column in columns]
    if len(values) > 1:
        values = [escaped(value, "\\*") for value in values]
    return "*".join(escaped(c, "\\*=") for c in columns) + "=" + "*".join(values)


def categorical_features(rows, terms, buckets):
    hashes = [[murmurhash3_32(categorical_key(term, row).encode(), seed=0, positive=True) % buckets
               for term in terms] for row in rows]
    numbers = numpy.repeat(numpy.arange(len(rows)), len(terms))
    ones = numpy.ones(len(numbers))  # of keys in one bucket they add up
    return scipy.sparse.csr_matrix((ones, (numbers, numpy.ravel(hashes))), (len(rows), buckets))


def scores(weights, rows, numeric=(), moments=None, categorical=(), categorical_buckets=4096,
                  text="", text_buckets=1024, missing="mean", missing_tokens=MISSING_TOKENS,
                  bins=(), bin_edges=()):
    """A row for each of `rows` (dicts of text by column), a column for each one of the weights."""
    blocks = []
    if numeric:
        values = parsed_numbers([[row[column] for column in numeric] for row in rows], missing_tokens)
        blocks.append(numeric_features(values, moments))
        if missing == "mean":
            blocks.append(numpy.isnan(values).astype(float))  # the indicators
    binned = binned_columns(bins, numeric)
    if len(binned) != len(bin_edges):
        raise ValueError(f"edges of {len(bin_edges)} columns, but --bins has {len(binned)}")
    terms = [*categorical, *binned]
    if terms:
        cells = with_bins(rows, binned, bin_edges, missing_tokens)
        blocks.append(categorical_features(cells, terms, categorical_buckets))
    if text:
        hasher = HashingVectorizer(n_features=text_buckets)
        blocks.append(hasher.transform([row[text] for row in rows]))
    features = scipy.sparse.hstack([scipy.sparse.csr_matrix(block) for block in blocks]).tocsr()
    if features.shape[1] + 1 != len(weights):
        raise ValueError(f"{features.shape[1]} features and the bias need as many rows of weights, "
                         f"but there are {len(weights)}: check the columns, the buckets and --missing")
    return features @ weights[:-1] + weights[-1]


def probabilities(weights, rows, **features):
    """Of the classes, from scores()."""
    linear = scores(weights, rows, **features)
    exponentials = numpy.exp(linear - linear.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def estimates(weights, rows, target, **features):
    """Of a regression. `target`: the mean of the targets, and the unit of the scores."""
    mean, unit = target
    return mean + unit * scores(weights, rows, **features)


def main():
    def names(value):
        return value.split(",")

    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("weights")
    parser.add_argument("rows")
    label = parser.add_mutually_exclusive_group(required=True)
    label.add_argument("--classes", type=names)
    label.add_argument("--regression", action="store_true")
    parser.add_argument("--numeric", type=names, default=[])
    parser.add_argument("--categorical", type=names, default=[])
    parser.add_argument("--bins", type=names, default=[])
    parser.add_argument("--categorical-buckets", type=int, default=4096)
    parser.add_argument("--text", default="")
    parser.add_argument("--text-buckets", type=int, default=1024)
    parser.add_argument("--missing", choices=["mean", "mean-only", "reject"], default="mean")
    parser.add_argument("--missing-tokens", type=names, default=MISSING_TOKENS)
    parser.add_argument("--scaling", choices=["running", "none"], default="running")
    given = parser.parse_args()
    weights = numpy.load(given.weights)
    columns = ["estimate"] if given.regression else given.classes
    if weights.shape[1] != len(columns):
        sys.exit(f"{given.weights} has {weights.shape[1]} columns, but {len(columns)} are to be predicted")
    moments = None
    if given.numeric and given.scaling == "running":
        moments = numpy.load(given.weights + ".scaling.npy")
    bin_edges = numpy.load(given.weights + ".bins.npy") if given.bins else ()
    csv.field_size_limit(2**31 - 1)
    with open(given.rows, newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    features = {"numeric": given.numeric, "moments": moments, "categorical": given.categorical,
                "categorical_buckets": given.categorical_buckets, "text": given.text,
                "text_buckets": given.text_buckets, "missing": given.missing,
                "missing_tokens": given.missing_tokens, "bins": given.bins, "bin_edges": bin_edges}  # fmt: skip
    if given.regression:
        target = numpy.load(given.weights + ".target.npy")[0]
        result = estimates(weights, rows, target, **features)
    else:
        result = probabilities(weights, rows, **features)
    writer = csv.writer(sys.stdout, lineterminator=os.linesep)
    writer.writerow(columns)
    writer.writerows([[f"{p:.6g}" for p in row] for row in result])


if __name__ == "__main__":
    main()
