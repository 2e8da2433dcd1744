#!/usr/bin/env python3
"""Predictions for a CSV's rows, by an exported model of any kind.

    predict_model.py MODEL_FOLDER ROWS.csv [--delimiter ,] [--encoding utf-8]

Prints a CSV with a column for each class's probability, or with the estimate. It shows what docs/model-format.md
says in as few lines as possible; Predictor does the same much faster. Needs NumPy and scikit-learn, and predict.py
beside it.
"""

import json
import pathlib

import numpy
import predict

MISSING = {"REJECT": "reject", "MEAN": "mean-only", "MEAN_AND_INDICATOR": "mean"}  # as predict.py has it
BITS = (1 << 64) - 1
LARGEST = 1e6  # of a feature of a mixed model


def mix(x):
    """A step of SplitMix64."""
    x = (x + 0x9E3779B97F4A7C15) & BITS
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & BITS
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & BITS
    return x ^ (x >> 31)


def id_of(key):
    h = 14695981039346656037  # FNV-1a
    for byte in key.encode():
        h = (h ^ byte) * 1099511628211 & BITS
    return mix(h)


def new_row(shape, row_id):
    """The embedding row of an id that has none."""
    start = mix(mix(int(shape["row_seed"])) ^ row_id)
    drawn = [(mix((start + j) & BITS) >> 40) * 2.0**-23 - 1 for j in range(shape["row_width"])]
    limits = numpy.full(shape["row_width"], shape["row_limit"], numpy.float32)
    limits[:shape["row_zeros"]] = 0
    return limits * numpy.array(drawn, numpy.float32)


class Predictor:
    """The model of a folder."""

    def __init__(self, folder):
        folder = pathlib.Path(folder)
        model = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        self.spec, self.shape = model["features"], model["shape"]
        self.target, self.frequencies = model.get("target"), model.get("frequencies")
        self.classes = [] if self.spec["regression"] else self.spec["classes"]
        self.outputs = max(len(self.classes), 1)
        self.weights = numpy.load(folder / "weights.npy").ravel()
        moments = folder / "moments.npy"
        self.moments = numpy.load(moments) if self.shape["scaled"] and moments.exists() else None
        self.rows = {}
        if self.shape["row_width"] > 0:
            ids = numpy.load(folder / "embedding-ids.npy").tolist()
            self.rows = dict(zip(ids, numpy.load(folder / "embedding-rows.npy")))

    def embedding(self, row_id):
        return self.rows[row_id] if row_id in self.rows else new_row(self.shape, row_id)

    def encode(self, rows):
        """The features of rows (dicts of text by column), a row each, and the ids of each."""
        spec = self.spec
        tokens, edges = spec["missing_tokens"], [numpy.array(c["edge"]) for c in spec["bin_edges"]]
        features = predict.encoded(
            rows, lambda values: predict.numeric_features(values, self.moments), numeric=spec["numeric"],
            categorical=spec["categorical"], categorical_buckets=spec["categorical_buckets"], text=spec["text"],
            text_buckets=spec["text_buckets"], missing=MISSING[spec["missing"]], missing_tokens=tokens,
            bins=spec["bins"], bin_edges=edges, booleans=spec["booleans"], times=spec["times"],
            decimal_comma=spec["decimal_comma"]).toarray()  # fmt: skip
        rows = predict.with_time_parts(rows, spec["times"], tokens)
        columns = [column["column"] for column in spec["bin_edges"]]
        if columns:
            parts = [f"{column}.{part}" for column in spec["times"] for part in predict.TIME_PARTS]
            rows = predict.with_bins(rows, columns, edges, tokens=tokens, booleans=spec["booleans"],
                                     decimal_comma=spec["decimal_comma"], time_parts=parts)  # fmt: skip
        return features, [[id_of(predict.categorical_key(term, row)) for term in spec["ids"]] for row in rows]

    def take(self, *shape):
        """The next of the parameters."""
        count = int(numpy.prod(shape))
        self.rest, taken = self.rest[count:], self.rest[:count]
        return taken.reshape(shape)

    def scores(self, x, ids):
        """Of one row."""
        shape, k = self.shape, self.outputs
        self.rest = self.weights
        numeric, others = shape["numeric"], numpy.flatnonzero(x[shape["numeric"]:]) + shape["numeric"]
        if shape["mixed"]:
            x = numpy.clip(x, -LARGEST, LARGEST)
        if shape["kind"] in ("FACTORIZATION_MACHINE", "DEEP_FM"):
            y = x @ self.take(shape["features"]) + self.take()
            rows = numpy.array([self.embedding(each) for each in ids])
            factors = rows[:, 1:]
            y += rows[:, 0].sum() + (factors.sum(axis=0) ** 2 - (factors**2).sum(axis=0)).sum() / 2
            if shape["kind"] == "DEEP_FM":
                y += self.network(numpy.concatenate([factors.ravel(), x[:numeric]]), 0, 1)[0]
            return numpy.array([0, y] if self.classes else [y])
        dense = numeric if shape["wide"] else shape["features"]
        z = x[:dense] @ self.take(dense, k) + self.take(k)
        rows = [(1, self.embedding(each)) for each in ids]
        if shape["wide"]:
            rows += [(x[i], self.embedding(int(i))) for i in others]
        z = z + sum(value * row[:k] for value, row in rows)
        if shape["kind"] == "NETWORK":
            first = sum(value * row[k:] for value, row in rows)
            if not shape["wide"]:
                first = first + x[numeric:] @ self.take(shape["features"] - numeric, shape["hidden"][0])
            z = z + self.network(x[:numeric], first, k)
        return z

    def network(self, h, added, outputs):
        """`added`: to the first hidden layer, before its units."""
        for units in self.shape["hidden"]:
            h = numpy.maximum(0, h @ self.take(len(h), units) + self.take(units) + added)
            added = 0
        return h @ self.take(len(h), outputs)

    def predict(self, rows):
        """A row for each of `rows`: the probability of each class, or the estimate."""
        z = numpy.array([self.scores(x, ids) for x, ids in zip(*self.encode(rows))], float)
        if not self.classes:
            estimates = self.target["mean"] + self.target["unit"] * z
            return numpy.clip(estimates, self.target.get("least", -numpy.inf),
                              self.target.get("most", numpy.inf))  # fmt: skip
        if self.frequencies:
            counts = numpy.array([int(n) for n in self.frequencies["rows"]]) + .5
            factors = numpy.array(self.frequencies.get("weight") or [1] * len(counts))
            z += numpy.log(numpy.where(factors > 0, factors * counts, .5))
        exponentials = numpy.exp(z - z.max(axis=1, keepdims=True))
        return exponentials / exponentials.sum(axis=1, keepdims=True)


if __name__ == "__main__":
    predict.predict_by_model(__doc__, Predictor)
