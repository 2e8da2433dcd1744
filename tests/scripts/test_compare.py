#!/usr/bin/env python3
"""scripts/compare: what is equal, what differs, progress, and files that are none of Watch's."""

import json
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = ("timestamp;partition;vectorClock;loss;fMeasure;accuracy;kind;rows;rows_trained;rows_tested;f1_macro;"
          "auc;prior_accuracy;prior_log_loss;train_loss;rmse;prior_rmse;mae;r2;pr_auc;calibration_error\n")


def summary(**changes):
    return {"job": "flights", "ended": True, "rows_read": 1000, "rows_trained": 1000, "refused": 0,
            "rows_per_second": 2000.0, "consistency": "sequential", "workers": 4, "seed": 1,
            "started_at": "2026-11-26T05:15:52Z", "ended_at": "2026-11-26T05:17:10Z",
            "versions": {"ServerApp": ["0.1.0 (a)"], "CsvProducer": ["0.1.0 (a)"]},
            "settings": {"--label": "late", "--workers": "4"},
            "holdout": {"rows": 500, "log_loss": 0.5}, **changes}


def line(kind, rows, loss, rmse=""):
    return f"1;0;1;{loss};;;{kind};{rows};{rows};{rows};;;;;0.1;{rmse};;;;;\n"


class Compare(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="millrace-scripts-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_of(self, name, content, log=None):
        folder = self.folder / name
        folder.mkdir()
        text = content if isinstance(content, (str, bytes)) else json.dumps(content)
        (folder / "summary.json").write_bytes(text if isinstance(text, bytes) else text.encode())
        if log is not None:
            (folder / "evaluation.csv").write_text(log)
        return folder

    def compare(self, *words):
        return subprocess.run([ROOT / "scripts" / "compare", *map(str, words)], text=True, timeout=60,
                              stdin=subprocess.DEVNULL, capture_output=True, check=False)

    def compared(self, *words):
        result = self.compare(*words)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def assert_refused(self, path, code, *parts):
        result = self.compare(self.run_of("good", summary()), path)
        self.assertEqual((result.returncode, result.stdout), (code, ""), result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        for text in parts:
            self.assertIn(text, result.stderr)

    def test_says_what_is_equal_once_and_what_differs_side_by_side(self):
        a = self.run_of("a", summary())
        b = self.run_of("b", summary(seed=7, rows_per_second=3000.5, holdout={"rows": 500, "log_loss": 0.45},
                                     settings={"--label": "late", "--model": "fm", "--skip-rows": True}))
        lines = self.compared(a, b).splitlines()
        self.assertEqual(lines[0], f"A  {a}: job flights, began 2026-11-26T05:15:52Z, ended "
                                   "2026-11-26T05:17:10Z")
        self.assertIn("equal settings: consistency sequential, workers 4, version 0.1.0 (a), --label late", lines)
        self.assertIn("equal figures: rows_read 1,000, rows_trained 1,000, held-out rows 500", lines)
        self.assertIn("0 in all: refused", lines)
        cells = [text.split() for text in lines]
        for expected in (["seed", "1", "7"], ["--model", "-", "fm"], ["--skip-rows", "-", "on"],
                         ["rows_per_second", "2,000", "3,000", "+1,000"],
                         ["held-out", "log_loss", "0.5", "0.45", "-0.05"]):
            self.assertIn(expected, cells)
        self.assertEqual(sum("--label" in text for text in lines), 1)
        self.assertFalse(any("--workers" in text for text in lines), "workers says it")

    def test_programs_get_the_same_as_json(self):
        a, b = self.run_of("a", summary()), self.run_of("b", summary(seed=7, refused=3))
        found = json.loads(self.compared("--json", a, b / "summary.json"))
        self.assertEqual([run["name"] for run in found["runs"]], ["A", "B"])
        self.assertEqual(found["settings"], {"seed": ["1", "7"]})
        self.assertEqual(found["figures"], {"refused": [0, 3]})
        self.assertEqual(found["equal"]["figures"]["holdout.log_loss"], 0.5)
        self.assertEqual(found["progress"], [])

    def test_progress_is_told_after_equal_numbers_of_rows(self):
        a = self.run_of("a", summary(), HEADER + line("holdout", 100, .6) + line("holdout", 1000, .5) +
                        line("holdout", 2000, .4))
        b = self.run_of("b", summary(), HEADER + line("holdout", 150, .7) + line("holdout", 1000, .3) +
                        "1;0;1;0.2;;;holdout;11")
        found = json.loads(self.compared("--json", a, b))["progress"]
        self.assertEqual(found, [{"kind": "holdout", "figure": "loss", "rows": [150, 1000],
                                  "values": [[.6, .7], [.5, .3]]}])
        cells = [text.split() for text in self.compared(a, b).splitlines()]
        self.assertIn(["1,000", "0.5", "0.3", "-0.2"], cells)

    def test_a_regression_has_its_own_curve_and_more_than_two_runs_have_a_column_each(self):
        runs = [self.run_of(f"r{i}", summary(), HEADER + line("progressive", 10, "", i)) for i in range(3)]
        found = json.loads(self.compared("--json", *runs))["progress"]
        self.assertEqual(found, [{"kind": "progressive", "figure": "rmse", "rows": [10],
                                  "values": [[0, 1, 2]]}])
        self.assertIn(["10", "0", "1", "2"], [text.split() for text in self.compared(*runs).splitlines()])

    def test_says_when_a_summary_does_not_tell_its_settings(self):
        a, b = self.run_of("a", summary()), self.run_of("b", summary(settings=None))
        self.assertIn("B: the summary does not tell all settings", self.compared(a, b))

    def test_what_a_file_says_cannot_move_the_cursor_or_break_the_table(self):
        evil = summary(job="\x1b[2J" + "x" * 500, consistency=["\x1b"], workers={"a": 1}, seed="\x07\n",
                       settings={"--\x1b[1m": "\r", "--label": 10 ** 400}, versions=[1], holdout=7,
                       rows_per_second=float("nan"), rows_read=True, refused=10 ** 400)
        text = self.compared(self.run_of("a", summary()), self.run_of("b", evil))
        self.assertTrue(all(c.isprintable() or c == "\n" for c in text))
        self.assertLess(max(map(len, text.splitlines())), 300)

    def test_refuses_what_is_no_summary(self):
        self.assert_refused(self.folder / "none", 1, "none cannot be read: No such file or directory")

    def test_refuses_files_of_another_content(self):
        good = self.run_of("good", summary())
        for i, (content, part) in enumerate((("{", "is no JSON"), ("[" * 100_000, "is no JSON"),
                                             ("[]", "is no summary"), ('{"job": 1}', "is no summary"),
                                             (b"\xff", "is not UTF-8"))):
            result = self.compare(good, self.run_of(f"bad{i}", content))
            self.assertEqual((result.returncode, result.stdout), (1, ""), content[:20])
            self.assertIn(part, result.stderr)
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)

    def test_refuses_a_log_that_is_none(self):
        self.assert_refused(self.run_of("bad", summary(), "a;b\n1;2\n"), 1, "evaluation.csv", "Move it away")

    def test_help_and_wrong_usage(self):
        result = self.compare("--help")
        self.assertEqual(result.returncode, 0)
        for text in ("build/demo", "--json", "Exit codes"):
            self.assertIn(text, result.stdout)
        for words in ([], ["x"], ["--no-such", "a", "b"], ["a"] * 27):
            self.assertEqual(self.compare(*words).returncode, 2, words)


if __name__ == "__main__":
    unittest.main()
