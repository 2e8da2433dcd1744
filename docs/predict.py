#!/usr/bin/env python3
"""Predictions for a CSV's rows, by the weights file of a job with --model softmax.

    predict.py WEIGHTS.npy ROWS.csv --classes no,yes | --regression [--numeric A,B]
        [--categorical C,C*A] [--bins A,all:8] [--categorical-buckets N] [--text T,U]
        [--text-buckets N] [--scaling none] [--missing mean|mean-only|reject] [--missing-tokens A,B]
        [--booleans D,E] [--time-features F] [--decimal-comma] [--delimiter ,] [--encoding utf-8]

Give the features as CsvProducer was given them, and the classes in the job's order. Buckets that are not given
are CsvProducer's defaults (many or few, by the rows of the weights). Prints a CSV with a
column for each class's probability, or with the estimate. docs/weights-file.md says what is computed. Needs NumPy and scikit-learn.
"""

import argparse
import csv
import datetime
import os
import re
import sys

import numpy
import scipy.sparse
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.utils import murmurhash3_32


MISSING_TOKENS = ("NA", "N/A", "#N/A", "NaN", "null", "none", "?", "-")


TIME_PARTS = ("hour", "weekday", "month", "days")
YES, NO = ("true", "t", "yes", "y", "on", "1"), ("false", "f", "no", "n", "off", "0")
NAME = r'\s*("(?:[^"]|"")*"|[^*]*?)\s*'  # of a column in a term, perhaps in quotes


def number(text):
    try:
        return float(text)
    except ValueError:
        return None


def comma_number(text):
    """Of 1.234,5."""
    if not re.fullmatch(r"[+-]?([0-9]{1,3}(\.[0-9]{3})+|[0-9]*)(,[0-9]*)?(e[+-]?[0-9]+)?", text):
        return None
    return number(text.replace(".", "").replace(",", "."))


def parsed_numbers(rows, columns, tokens, booleans=(), decimal_comma=False, time_parts=()):
    """Columns of text as numbers, NaN where the text means that there is none."""
    names = {token.strip(" \t").lower() for token in ("", *tokens)}
    numbers = {number(name) for name in names}
    if decimal_comma:
        numbers |= {comma_number(name) for name in names}
    numbers -= {None}

    def parsed(column, cell):
        text = cell.strip(" \t").lower()
        has_comma = decimal_comma and column not in time_parts
        value = comma_number(text) if has_comma else number(text)
        if text in names or value in numbers:
            return numpy.nan
        words = (YES, NO) if column in booleans else (("true",), ("false",))
        if text in words[0] or text in words[1]:
            return float(text in words[0])
        if value is None:
            raise ValueError(f"column {column}: {cell!r} is not a number")
        return value

    return numpy.array([[parsed(column, row[column]) for column in columns] for row in rows])


def with_time_parts(rows, times, tokens):
    """The same rows with the further columns of each time: "at.hour" and so on."""
    names = {token.strip(" \t").lower() for token in ("", *tokens)}
    result = []
    for row in rows:
        parts = {}
        for column in times:
            text = row[column].strip(" \t")
            values = [""] * 4
            seconds = number(text)
            if seconds is not None or text.lower() not in names:
                if seconds is not None:
                    seconds = seconds / 1000 if abs(seconds) >= 1e11 else seconds
                    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
                else:
                    iso = re.sub(r"^(\d\d)\.(\d\d)\.(\d{4})", r"\3-\2-\1", text.upper())
                    moment = datetime.datetime.fromisoformat(iso)
                wall = moment.replace(tzinfo=None)  # the clock on the wall
                since = wall - (moment.utcoffset() or datetime.timedelta()) - datetime.datetime(1970, 1, 1)
                days = since / datetime.timedelta(days=1)
                values = [str(wall.hour), str(wall.isoweekday()), str(wall.month), repr(days)]
            parts |= {f"{column}.{part}": value for part, value in zip(TIME_PARTS, values)}
        result.append({**row, **parts})
    return result


def columns_of(term):
    """Of "A*B" A and B; a name in quotes may hold a star."""
    match = re.fullmatch(rf"{NAME}(?:\*{NAME})*", term)
    names = re.findall(rf"(?:^|\*){NAME}(?=\*|$)", term) if match else term.split("*")
    return [unquoted(name.strip(" \t")) for name in names]


def unquoted(name):
    return name[1:-1].replace('""', '"') if re.fullmatch(r'"(?:[^"]|"")*"', name) else name


def in_term(column):
    return '"' + column.replace('"', '""') + '"' if "*" in column or column.startswith('"') else column


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
    names = [name if unquoted(name) != name else re.sub(r"[ \t]*:[0-9]+$", "", name) for name in names]
    rest = [unquoted(name) for name in names if name != "all"]
    return [c for c in numeric if c not in rest] + rest if "all" in names else rest


def with_bins(rows, columns, edges, **cells):
    """The same rows, but in these columns the number of the bin, or nothing if the value is missing."""
    rows = [dict(row) for row in rows]
    values = parsed_numbers(rows, columns, **cells)
    for i, column in enumerate(columns):
        reached = numpy.searchsorted(edges[i][~numpy.isnan(edges[i])], values[:, i], side="right")
        for row, value, number_of_bin in zip(rows, values[:, i], reached):
            row[column] = "" if numpy.isnan(value) else str(number_of_bin)
    return rows


def escaped(text, special):
    return "".join("\\" + c if c in special else c for c in text)


def categorical_key(term, row):
    """What is hashed: "carrier=UA", or "carrier*origin=UA*EWR" of a cross."""
    columns = columns_of(term)
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


def buckets(hashed, has_terms, texts, categorical, text):
    """Those that are None are one of CsvProducer's defaults: the one that gives the hashed features there are."""
    for many in (2**power for power in range(18, 9, -1)):
        c, t = max(many, 4096), many
        c, t = c if categorical is None else categorical, t if text is None else text
        if c * has_terms + t * texts == hashed:
            return c, t
    raise ValueError(f"{hashed} rows of weights are left for hashed features, and no default gives so many: check the "
                     "columns and --missing, and give --categorical-buckets and --text-buckets")


def encoded(rows, scaled, numeric=(), categorical=(), categorical_buckets=None, text=(),
            text_buckets=None, missing="mean", missing_tokens=MISSING_TOKENS, bins=(), bin_edges=(),
            booleans=(), times=(), decimal_comma=False, feature_count=None):  # fmt: skip
    """The features: a row for each of `rows` (dicts of text by column). `scaled` makes features of the
    numeric columns' values, in which NaN is missing. Without numbers of buckets, `feature_count` tells them."""
    blocks = []
    rows = with_time_parts(rows, times, missing_tokens)
    cells = {"tokens": missing_tokens, "booleans": booleans, "decimal_comma": decimal_comma,
             "time_parts": [f"{column}.{part}" for column in times for part in TIME_PARTS]}  # fmt: skip
    if numeric:
        values = parsed_numbers(rows, numeric, **cells)
        blocks.append(scaled(values))
        if missing == "mean":
            blocks.append(numpy.isnan(values).astype(float))  # the indicators
    binned = binned_columns(bins, numeric)
    if len(binned) != len(bin_edges):
        raise ValueError(f"edges of {len(bin_edges)} columns, but --bins has {len(binned)}")
    terms = [*categorical, *(in_term(column) for column in binned)]
    if categorical_buckets is None or text_buckets is None:
        hashed = feature_count - sum(block.shape[1] for block in blocks)
        categorical_buckets, text_buckets = buckets(hashed, bool(terms), len(text), categorical_buckets, text_buckets)
    if terms:
        in_bins = with_bins(rows, binned, bin_edges, **cells)
        blocks.append(categorical_features(in_bins, terms, categorical_buckets))
    for column in text:
        hasher = HashingVectorizer(n_features=text_buckets)
        blocks.append(hasher.transform([row[column] for row in rows]))
    return scipy.sparse.hstack([scipy.sparse.csr_matrix(block) for block in blocks]).tocsr()


def scores(weights, rows, moments=None, **features):
    """A row for each of `rows`, a column for each one of the weights."""
    features = encoded(rows, lambda values: numeric_features(values, moments),
                       feature_count=len(weights) - 1, **features)
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
    """Of a regression. `target`: the mean of the targets, the unit of the scores, and the range of estimates."""
    mean, unit, least, most = target
    return numpy.clip(mean + unit * scores(weights, rows, **features), least, most)


def completed(given):
    """What CsvProducer adds: booleans are numeric, and a time of which nothing is named has all parts."""
    given.numeric += [column for column in given.booleans if column not in given.numeric]
    for column in given.time_features:
        parts = {f"{column}.{part}" for part in TIME_PARTS}
        named = [*given.numeric, *(name for term in given.categorical for name in columns_of(term)),
                 *binned_columns(given.bins, given.numeric)]  # fmt: skip
        if parts.isdisjoint(named):
            given.numeric.append(f"{column}.days")
            given.categorical += [in_term(f"{column}.{part}") for part in TIME_PARTS[:3]]


def read_rows(path, delimiter=",", encoding="utf-8"):
    """Dicts of text by column."""
    csv.field_size_limit(2**31 - 1)
    encoding = {"utf-8": "utf-8-sig", "latin1": "cp1252"}.get(encoding, encoding)
    with open(path, newline="", encoding=encoding) as file:
        return list(csv.DictReader(file, delimiter=delimiter))


def print_rows(columns, rows):
    writer = csv.writer(sys.stdout, lineterminator=os.linesep)
    writer.writerow(columns)
    writer.writerows([[f"{p:.6g}" for p in row] for row in rows])


def predict_by_model(description, load):
    """The command line of a program that predicts by a model's folder: what load(folder) gives has `classes`
    and predict(rows)."""
    parser = argparse.ArgumentParser(description=description.split("\n", maxsplit=1)[0])
    parser.add_argument("model")
    parser.add_argument("rows")
    parser.add_argument("--delimiter", default=",")
    parser.add_argument("--encoding", default="utf-8")
    given = parser.parse_args()
    predictor = load(given.model)
    found = predictor.predict(read_rows(given.rows, given.delimiter, given.encoding))
    print_rows(predictor.classes or ["estimate"], found)


def main():
    def terms(value):
        return re.findall(r'(?:^|(?<=,))(?:[^",*]*"(?:[^"]|"")*"|[^,])*', value)

    def names(value):
        return [unquoted(name) for name in terms(value)]

    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("weights")
    parser.add_argument("rows")
    label = parser.add_mutually_exclusive_group(required=True)
    label.add_argument("--classes", type=names)
    label.add_argument("--regression", action="store_true")
    parser.add_argument("--numeric", type=names, default=[])
    parser.add_argument("--categorical", type=terms, default=[])
    parser.add_argument("--bins", type=terms, default=[])
    parser.add_argument("--booleans", type=names, default=[])
    parser.add_argument("--time-features", type=names, default=[])
    parser.add_argument("--decimal-comma", action="store_true")
    parser.add_argument("--delimiter", default=",")
    parser.add_argument("--encoding", default="utf-8")
    parser.add_argument("--categorical-buckets", type=int)
    parser.add_argument("--text", type=names, default=[])
    parser.add_argument("--text-buckets", type=int)
    parser.add_argument("--missing", choices=["mean", "mean-only", "reject"], default="mean")
    parser.add_argument("--missing-tokens", type=names, default=MISSING_TOKENS)
    parser.add_argument("--scaling", choices=["running", "none"], default="running")
    given = parser.parse_args()
    completed(given)
    weights = numpy.load(given.weights)
    columns = ["estimate"] if given.regression else given.classes
    if weights.shape[1] != len(columns):
        sys.exit(f"{given.weights} has {weights.shape[1]} columns, but {len(columns)} are to be predicted")
    moments = None
    if given.numeric and given.scaling == "running":
        moments = numpy.load(given.weights + ".scaling.npy")
    bin_edges = numpy.load(given.weights + ".bins.npy") if given.bins else ()
    rows = read_rows(given.rows, given.delimiter, given.encoding)
    features = {"numeric": given.numeric, "moments": moments, "categorical": given.categorical,
                "categorical_buckets": given.categorical_buckets, "text": given.text,
                "text_buckets": given.text_buckets, "missing": given.missing,
                "missing_tokens": given.missing_tokens, "bins": given.bins, "bin_edges": bin_edges,
                "booleans": given.booleans, "times": given.time_features,
                "decimal_comma": given.decimal_comma}  # fmt: skip
    if given.regression:
        target = numpy.load(given.weights + ".target.npy")[0]
        result = estimates(weights, rows, target, **features)
    else:
        result = probabilities(weights, rows, **features)
    print_rows(columns, result)


if __name__ == "__main__":
    main()
