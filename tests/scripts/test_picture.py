#!/usr/bin/env python3
"""scripts/plot_learning_curve.py: what stands in the picture. Needs matplotlib; without it nothing is tested."""

import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "plot_learning_curve.py"
HEADER = ("timestamp;partition;vectorClock;loss;fMeasure;accuracy;kind;rows;rows_trained;rows_tested;f1_macro;"
          "auc;prior_accuracy;prior_log_loss;train_loss;rmse;prior_rmse;mae;r2;pr_auc;calibration_error\n")


def of_numbers(rows, rmse, prior=20):
    return f"1;0;1;;;;progressive;{rows};{rows};{rows};;;;;;{rmse};{prior};{rmse / 2};{1 - (rmse / prior) ** 2};;\n"


def has_matplotlib():
    return importlib.util.find_spec("matplotlib") is not None


@unittest.skipUnless(has_matplotlib(), "matplotlib is not installed")
class Picture(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="millrace-scripts-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def log(self, *lines):
        path = self.folder / "evaluation.csv"
        path.write_text(HEADER + "".join(lines))
        return path

    def texts(self, log, *words):
        """All texts of the picture, in one line."""
        picture = self.folder / "picture.svg"
        done = subprocess.run([sys.executable, SCRIPT, log, picture, *words], capture_output=True, text=True,
                              timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return " ".join(re.findall(r"<!-- (.*?) -->", picture.read_text(), re.S)).replace("\n", " ")

    def test_of_a_regression_all_three_figures_are_drawn(self):
        texts = self.texts(self.log(of_numbers(2000, 16), of_numbers(4000, 12)))
        for text in ("Root mean squared error", "Mean absolute error", "R2", "0.640", "12.000", "6.000"):
            self.assertIn(text, texts)


if __name__ == "__main__":
    unittest.main()
