#!/usr/bin/env python3
"""scripts/plot_learning_curve.py: what stands in the picture. Where matplotlib is not installed, nothing is
drawn, and only what the picture would say is looked at."""

import importlib.util
import json
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
RUN = {"job": "x", "workers": 1, "schedule": "one-pass", "consistency": "sequential", "learner": "online",
       "rows_trained": 4000, "duration_seconds": 1.0}


def of_classes(rows, loss, prior=0.5):
    return f"1;0;1;{loss};.7;.7;progressive;{rows};{rows};{rows};.7;.8;.6;{prior};;;;;;;\n"


def of_numbers(rows, rmse, prior=20):
    return f"1;0;1;;;;progressive;{rows};{rows};{rows};;;;;;{rmse};{prior};{rmse / 2};{1 - (rmse / prior) ** 2};;\n"


def has_matplotlib():
    return importlib.util.find_spec("matplotlib") is not None


class Picture(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="millrace-scripts-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        spec = importlib.util.spec_from_file_location("plot_learning_curve", SCRIPT)
        self.module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)

    def log(self, *lines):
        path = self.folder / "evaluation.csv"
        path.write_text(HEADER + "".join(lines))
        return path

    def warning(self, *lines, **run):
        return self.module.warning_of(self.module.read_points(self.log(*lines)), run)

    def texts(self, log, *words):
        """All texts of the picture, in one line."""
        picture = self.folder / "picture.svg"
        done = subprocess.run([sys.executable, SCRIPT, log, picture, *words], capture_output=True, text=True,
                              timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return " ".join(re.findall(r"<!-- (.*?) -->", picture.read_text(), re.S)).replace("\n", " ")

    def test_a_model_that_is_worse_than_the_class_frequencies_is_called_so(self):
        self.assertIn("after 4000 rows the model is worse than always answering the frequencies of the classes: its "
                      "log loss is 0.5100, theirs is 0.5000", self.warning(of_classes(400, .4), of_classes(4000, .51)))
        self.assertIsNone(self.warning(of_classes(400, .9), of_classes(4000, .505)))
        self.assertIsNone(self.warning(of_classes(999, .9)), "a matter of chance")

    def test_a_model_that_is_worse_than_the_mean_is_called_so(self):
        self.assertIn("its root mean squared error is 21, the mean's is 20", self.warning(of_numbers(4000, 21)))
        self.assertIsNone(self.warning(of_numbers(4000, 20.09)))

    def test_what_the_summary_says_counts(self):
        self.assertEqual(self.warning(of_classes(4000, .4), worse_than_prior="as Watch says"), "as Watch says")
        self.assertIsNone(self.warning(of_classes(4000, .9), worse_than_prior=None))

    @unittest.skipUnless(has_matplotlib(), "matplotlib is not installed")
    def test_it_says_so_below_its_panels(self):
        summary = self.folder / "summary.json"
        text = "after 4000 rows the model is worse than always answering " + "and so on " * 30 + "to the end"
        summary.write_text(json.dumps({**RUN, "worse_than_prior": text}))
        log = self.log(of_classes(2000, .6), of_classes(4000, .6))
        self.assertIn(f"Warning: {text}.", self.texts(log, "--summary", summary))
        self.assertIn("Warning: after 4000 rows", self.texts(log))
        self.assertNotIn("Warning", self.texts(self.log(of_classes(2000, .4), of_classes(4000, .4))))

    @unittest.skipUnless(has_matplotlib(), "matplotlib is not installed")
    def test_of_a_regression_all_three_figures_are_drawn(self):
        texts = self.texts(self.log(of_numbers(2000, 16), of_numbers(4000, 12)))
        for text in ("Root mean squared error", "Mean absolute error", "R2", "0.640", "12.000", "6.000"):
            self.assertIn(text, texts)


if __name__ == "__main__":
    unittest.main()
