#!/usr/bin/env python3
"""scripts/evaluate on a broker: a shortened run has every section, with figures that can be; an interrupted
one leaves a report, with the spread of its runs, and no processes."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import topology  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Of what is measured, by the section's title: how many cases at least, of the set of reviews.
SECTIONS = {"1. Ground truth": 5, "2. One partition against several": 2, "3. Event frequency": 3,
            "4. Consistency models": 5, "5. Cost": 1}


def processes_in(folder):
    """The command lines of all processes that name a folder."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(str(folder).encode() in word for word in words):
                found.append(b" ".join(words).decode(errors="replace"))
    return found


def numbers(cell):
    """Of a cell as readers see it: least, median and most."""
    parts = [float(part.replace(",", "")) for part in cell.split(" (")[0].split("/")]
    return parts * 3 if len(parts) == 1 else parts


class Evaluate(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="millrace-test-")
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name) / "report"

    def start(self, runs, *words):
        process = subprocess.Popen(
            [ROOT / "scripts" / "evaluate", "--quick", "--sets", "reviews", "--runs", str(runs), "--out", self.out,
             *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            # As in a terminal, also when these tests run in the background, where it is ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.terminate()
        process.communicate()


class AShortenedRun(Evaluate):
    def test_has_every_section_with_figures_that_can_be(self):
        process = self.start(1)
        _, said = process.communicate(timeout=1800)
        self.assertEqual(process.returncode, 0, said)
        self.assertIn("on two idle cores", said, "the plan is told")
        self.assertEqual(processes_in(self.out), [])
        self.report = json.loads((self.out / "report.json").read_text(encoding="utf-8"))
        self.assertEqual((self.report["errors"], self.report["left_out"]), ([], []), said)
        self.sections = {section["title"]: section["blocks"] for section in self.report["sections"]}
        self.every_section_has_a_table()
        self.figures_are_plausible()
        self.pages_say_the_same()

    def every_section_has_a_table(self):
        for title, cases in SECTIONS.items():
            tables = [block for block in self.sections[title] if block["kind"] == "table"]
            self.assertGreaterEqual(sum(len(table["rows"]) for table in tables), cases, title)
            for table in tables:
                for row in table["rows"]:
                    self.assertEqual(len(row), len(table["columns"]))
                    for cell in row[1:]:
                        if isinstance(cell, dict):
                            self.assertEqual(cell["runs"], 1, (title, row))

    def figures_are_plausible(self):
        measured = {(each["section"], each["case"]): each for each in self.report["measured"]}

        def median(section, case, name):
            return measured[section, case]["spreads"][name]["median"]

        for section, case in measured:
            if section in ("ground-truth", "partitions", "consistency"):
                self.assertTrue(.4 < median(section, case, "accuracy") < .95, (section, case))
                self.assertTrue(.5 < median(section, case, "log_loss") < 1.7, (section, case))
                self.assertTrue(0 < median(section, case, "f1_macro") <= median(section, case, "accuracy"), case)
        # Whoever has learnt something beats who has not; a batch of all rows is no worse than a pass by much.
        prior = median("ground-truth", "class frequencies, frozen", "log_loss")
        batch = median("ground-truth", "scikit-learn, batch, frozen", "log_loss")
        ours = median("ground-truth", "Millrace, 1 worker, frozen", "log_loss")
        self.assertLess(batch, prior)
        self.assertLess(ours, prior)
        self.assertLess(ours, batch + .1)
        for name in ("buffer, 200 rows/s", "buffer, as fast as it goes", "buffer, skipping, as fast as it goes",
                     "one-pass, as fast as it goes"):
            self.assertTrue(0 < median("frequency", name, "used") <= 1)
            self.assertGreater(median("frequency", name, "rounds_per_s"), 0)
            self.assertTrue(0 <= median("frequency", name, "lag") <= 1500)
        self.assertTrue(0 < median("frequency", "buffer, 200 rows/s", "rows_per_s") < 250)
        self.assertLess(0, median("frequency", "buffer, 200 rows/s", "buffer_rows"))
        self.assertEqual(median("consistency", "sequential", "staleness_most"), 0)
        self.assertLessEqual(median("consistency", "sequential", "lead_most"), 1)
        self.assertLessEqual(median("consistency", "bounded:2", "staleness_most"), 2)
        # Everybody waits for the straggler, or nobody. (By clocks: updates per second are also the machine's.)
        self.assertEqual(median("consistency", "sequential, straggler", "staleness_most"), 0)
        self.assertLessEqual(median("consistency", "sequential, straggler", "lead_most"), 1)
        self.assertGreater(median("consistency", "eventual, straggler", "lead_most"), 2)
        for case in ("sequential, straggler", "eventual, straggler"):
            self.assertGreater(median("consistency", case, "updates_per_s"), 0)
        for topic, least in (("input-data", 50), ("gradients", 50), ("weights", 10), ("all", 200)):
            self.assertGreater(median("cost", "defaults", f"bytes {topic}"), least, topic)
        for program in ("CsvProducer", "ServerApp", "WorkerApp", "broker"):
            self.assertTrue(5 < median("cost", "defaults", f"peak {program}") < 2000, program)
            self.assertGreater(median("cost", "defaults", f"cpu {program}"), 0, program)

    def pages_say_the_same(self):
        page = (self.out / "report.html").read_text(encoding="utf-8")
        self.assertEqual(re.findall(r'(?:src|href)="(?!#|data:image/png;base64,)([^"]*)"', page), [])
        self.assertNotIn("url(", page)
        text = (self.out / "report.md").read_text(encoding="utf-8")
        pictures = re.findall(r"\]\(plots/(.*?)\)", text)
        self.assertGreaterEqual(len(pictures), 6)
        self.assertEqual(page.count("data:image/png"), len(pictures))
        for name in pictures:
            self.assertEqual((self.out / "plots" / name).read_bytes()[:4], b"\x89PNG")
        checked = 0
        lines = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.split("\n")
                 if line.startswith("| ")]
        for title in SECTIONS:
            for table in (block for block in self.sections[title] if block["kind"] == "table"):
                for row in table["rows"]:
                    found = [line for line in lines if len(line) == len(row) and line[0].strip() == row[0]]
                    self.assertTrue(any(self.is_same(line, row) for line in found), (row[0], found))
                    checked += len(row)
        self.assertGreater(checked, 100)

    @staticmethod
    def is_same(line, row):
        """Whether a line of the page has the figures of a row, to the digits that it shows."""
        for shown, cell in zip(line, row):
            if isinstance(cell, dict):
                digits = shown.split(" (")[0].split("/")[0].partition(".")[2].strip()
                for number, name in zip(numbers(shown), ("min", "median", "max")):
                    if abs(number - cell[name]) > .51 * 10 ** -len(digits):
                        return False
        return True


class AnInterruptedRun(Evaluate):
    def test_writes_what_there_is_with_its_spread_and_leaves_no_processes(self):
        process = self.start(2, "--sections", "partitions")
        said = ""
        while "partitions, reviews: 4 workers, run 2" not in said:
            line = process.stderr.readline()
            self.assertTrue(line, said)
            said += line
        time.sleep(0.5)  # in the middle of a job, mostly; it has to work at any moment
        process.send_signal(signal.SIGINT)
        said += process.communicate(timeout=300)[1]
        self.assertEqual(process.returncode, 130, said)
        self.assertEqual(processes_in(self.out), [])
        report = json.loads((self.out / "report.json").read_text(encoding="utf-8"))
        self.assertEqual([each["case"] for each in report["measured"]], ["1 worker", "4 workers"])
        self.assertIn("reviews: 4 workers: 1 run", " ".join(report["left_out"]))
        self.assertIn("interrupted", " ".join(report["about"]))
        self.assertIn("4 workers: 1 run", (self.out / "report.md").read_text(encoding="utf-8"))
        (table,) = [block for section in report["sections"] for block in section["blocks"]
                    if section["title"] in SECTIONS and block["kind"] == "table"]
        for row, runs in zip(table["rows"], (2, 1), strict=True):
            for cell in row[1:]:
                self.assertEqual(cell["runs"], runs, row)
                self.assertLessEqual(cell["min"], cell["median"])
                self.assertLessEqual(cell["median"], cell["max"])


if __name__ == "__main__":
    topology.main()
