#!/usr/bin/env python3
"""Whether onnxruntime predicts by model.onnx what Millrace predicts by the model, from the same cells.

Usage: onnx_test.py WRITE_MODELS FLIGHTS.csv FOLDER

WRITE_MODELS (write_models.cc) writes models into FOLDER. Their rows are encoded by docs/predict_onnx.py,
which knows nothing but encoder.json. Needs onnxruntime, NumPy, SciPy and scikit-learn.
"""

import pathlib
import subprocess
import sys

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "docs"))
import predict  # noqa: E402
import predict_onnx  # noqa: E402

TOLERANCE = 1e-5  # 32-bit floats, added in another order
KINDS = ["network", "network-classes", "network-regression", "network-regression-range", "network-wide", "online",
         "online-classes", "online-regression", "online-regression-range", "online-wide-unscaled", "regression", "softmax",
         "softmax-classes"]  # fmt: skip


def wrong(folder, rows):
    """What differs, in words; empty: nothing."""
    predictor = predict_onnx.Predictor(folder / "model")
    found = predictor.run(rows)
    expected = numpy.load(folder / "scores.npy")
    scores = found["probabilities" if predictor.classes else "variable"]
    if scores.shape != expected.shape or expected.std() < 1e-3:
        return f"scores of the shape {scores.shape} instead of {expected.shape}, or all the same"
    error = numpy.max(numpy.abs(scores - expected) / numpy.maximum(1, numpy.abs(expected)))
    if not error < TOLERANCE:
        return f"a score is off by {error:.3g}"
    if predictor.classes:
        likeliest = [predictor.classes[k] for k in scores.argmax(axis=1)]
        if found["label"].tolist() != likeliest:
            return "the labels are not those of the likeliest classes"
    print(f"onnx_test.py: {folder.name}: {len(rows)} rows, off by at most {error:.2g}")
    return ""


def main():
    program, flights, folder = sys.argv[1:]
    subprocess.run([program, flights, folder], check=True)
    rows = predict.read_rows(flights)
    folders = sorted(path.parent.parent for path in pathlib.Path(folder).glob("*/model/model.onnx"))
    if [path.name for path in folders] != KINDS:
        sys.exit(f"onnx_test.py: {folder} has graphs of other models than {', '.join(KINDS)}")
    errors = [f"onnx_test.py: {path.name}: {text}" for path in folders if (text := wrong(path, rows))]
    sys.exit("\n".join(errors) or 0)


if __name__ == "__main__":
    main()
