#!/usr/bin/env python3
"""Predictions for a CSV's rows, by the model.onnx of an exported model.

    predict_onnx.py MODEL_FOLDER ROWS.csv [--delimiter ,] [--encoding utf-8]

Prints a CSV with a column for each class's probability, or with the estimate. encoder.json says how a row
becomes the floats that the graph takes; docs/model-format.md says the same in words. Needs onnxruntime,
NumPy and scikit-learn, and predict.py beside it.
"""

import json
import pathlib

import numpy
import onnxruntime
import predict

MISSING = {"REJECT": "reject", "MEAN": "mean-only", "MEAN_AND_INDICATOR": "mean"}  # as predict.py has it


def scaling(encoder):
    """What makes features of the numeric columns' values (NaN: missing)."""
    means = numpy.array([column["mean"] for column in encoder["numeric"]])
    deviations = numpy.array([column["deviation"] for column in encoder["numeric"]])

    def scaled(values):
        if not encoder["scaled"]:
            return numpy.nan_to_num(values, nan=0.0)
        with numpy.errstate(invalid="ignore", divide="ignore"):
            features = numpy.clip((values - means) / deviations, -5, 5)
        return numpy.where((deviations > 0) & ~numpy.isnan(values), features, 0.0)

    return scaled


def inputs(encoder, rows):
    """The floats of rows (dicts of text by column), a row each."""
    spec = encoder["features"]
    features = predict.encoded(
        rows, scaling(encoder), numeric=spec["numeric"], categorical=spec["categorical"],
        categorical_buckets=spec["categorical_buckets"], text=spec["text"],
        text_buckets=spec["text_buckets"], missing=MISSING[spec["missing"]],
        missing_tokens=spec["missing_tokens"] or predict.MISSING_TOKENS, bins=spec["bins"],
        bin_edges=[numpy.array(column["edge"]) for column in spec["bin_edges"]],
        booleans=spec["booleans"], times=spec["times"], decimal_comma=spec["decimal_comma"])  # fmt: skip
    return features.toarray().astype(numpy.float32)


class Predictor:
    """The model of a folder."""

    def __init__(self, folder):
        folder = pathlib.Path(folder)
        self.encoder = json.loads((folder / "encoder.json").read_text(encoding="utf-8"))
        self.graph = onnxruntime.InferenceSession(folder / "model.onnx")
        self.classes = [] if self.encoder["features"]["regression"] else self.encoder["features"]["classes"]

    def run(self, rows):
        """By name: "label" and "probabilities", or "variable"."""
        names = [output.name for output in self.graph.get_outputs()]
        return dict(zip(names, self.graph.run(names, {"input": inputs(self.encoder, rows)})))

    def predict(self, rows):
        """A row for each of `rows`: the probability of each class, or the estimate."""
        found = self.run(rows)
        return found.get("probabilities", found.get("variable"))


if __name__ == "__main__":
    predict.predict_by_model(__doc__, Predictor)
