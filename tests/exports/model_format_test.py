#!/usr/bin/env python3
"""Whether docs/model-format.md suffices: docs/predict_model.py, which knows no more than that page says, predicts
what Millrace does, by models of all kinds.

Usage: model_format_test.py WRITE_MODELS FLIGHTS.csv FOLDER

WRITE_MODELS (write_models.cc) writes models into FOLDER. Needs NumPy, SciPy and scikit-learn.
"""

import pathlib
import subprocess
import sys

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "docs"))
import predict  # noqa: E402
import predict_model  # noqa: E402

TOLERANCE = 1e-5  # 32-bit floats, added in another order
KINDS = {"LINEAR", "FACTORIZATION_MACHINE", "DEEP_FM", "NETWORK"}


def main():
    program, flights, folder = sys.argv[1:]
    subprocess.run([program, flights, folder], check=True)
    rows = predict.read_rows(flights)
    seen, errors = set(), []
    for path in sorted(pathlib.Path(folder).glob("*/model")):
        predictor = predict_model.Predictor(path)
        found, expected = predictor.predict(rows), numpy.load(path.parent / "scores.npy")
        seen.add(predictor.shape["kind"])
        if found.shape != expected.shape or expected.std() < 1e-3:
            errors.append(f"{path}: scores of the shape {found.shape}, not {expected.shape}, or all the same")
            continue
        error = numpy.max(numpy.abs(found - expected) / numpy.maximum(1, numpy.abs(expected)))
        print(f"model_format_test.py: {path.parent.name}: {len(rows)} rows, off by at most {error:.2g}")
        if not error < TOLERANCE:
            errors.append(f"{path}: a score is off by {error:.3g}")
    printed = subprocess.run([sys.executable, predict_model.__file__, path, flights], check=True, text=True,
                             capture_output=True).stdout.splitlines()
    if len(printed) != 1 + len(rows) or printed[0] != ",".join(predictor.classes or ["estimate"]):
        errors.append(f"{path}: predict_model.py prints {len(printed)} lines, the first {printed[0]!r}")
    if seen != KINDS:
        errors.append(f"{folder} has models of the kinds {sorted(seen)} only")
    sys.exit("\n".join(errors) or 0)


if __name__ == "__main__":
    main()
