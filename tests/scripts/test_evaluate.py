#!/usr/bin/env python3
"""scripts/evaluate: its plan, its figures, its tables and pages, its sets; without a broker."""

import collections
import csv
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks" / "evaluation"), str(ROOT / "datasets")]

import balance  # noqa: E402
import blocks  # noqa: E402
import consistency  # noqa: E402
import frequency  # noqa: E402
import job  # noqa: E402
import main  # noqa: E402
import made_reviews  # noqa: E402
import page  # noqa: E402
import plan  # noqa: E402
import programs  # noqa: E402
import report  # noqa: E402
import results  # noqa: E402
import sets  # noqa: E402
import spread  # noqa: E402
import straggler  # noqa: E402
import worker_log  # noqa: E402


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="millrace-scripts-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class Spread(unittest.TestCase):
    def test_it_is_least_median_and_most_of_the_runs_that_have_the_figure(self):
        self.assertEqual(spread.spread([3, None, 1, 2]), {"min": 1, "median": 2, "max": 3, "runs": 3})
        self.assertEqual(spread.spread([1, 4])["median"], 2.5)
        self.assertIsNone(spread.spread([None, None]))

    def test_as_text_it_has_digits_that_say_something(self):
        self.assertEqual(spread.text(spread.spread([1234.5, 999, 2000])), "999/1,234/2,000")
        self.assertEqual(spread.text(spread.spread([.12345, .2, .3])), "0.123/0.200/0.300")
        self.assertEqual(spread.text(spread.spread([.12345, .2, .3]), 1), "0.1/0.2/0.3")
        self.assertEqual(spread.text(None), "–")

    def test_runs_that_agree_are_one_number_and_say_how_many_they_were(self):
        self.assertEqual(spread.text(spread.spread([.7001, .7002, .7003]), 3), "0.700 (3 equal)")
        self.assertEqual(spread.text(spread.spread([.7])), "0.700 (1 run)")


def case(name, seconds=10):
    return plan.Case(name, {"x": name}, seconds)


class Plan(unittest.TestCase):
    def setUp(self):
        self.steps = plan.steps([("a", "s", case("1")), ("a", "t", case("2", 20)), ("b", "s", case("3", 30))], 3)

    def test_every_case_runs_once_before_any_runs_again(self):
        self.assertEqual([(step.case.name, step.run) for step in self.steps[:4]],
                         [("1", 1), ("2", 1), ("3", 1), ("1", 2)])
        self.assertEqual(len(self.steps), 9)

    def test_what_does_not_begin_within_the_budget_does_not_fit(self):
        self.assertEqual(plan.fitting(self.steps, None), 9)
        self.assertEqual(plan.fitting(self.steps, 1000), 9)
        self.assertEqual(plan.fitting(self.steps, 60), 3)
        self.assertEqual(plan.fitting(self.steps, 61), 4, "what has begun is ended")
        self.assertEqual(plan.fitting(self.steps, 0), 0)

    def test_the_plan_says_what_is_likely_to_be_left_out(self):
        said = "\n".join(plan.announced(self.steps, 65))
        self.assertIn("3:00", said)
        self.assertIn("likely to be left out: 5 of 9 runs, from 'a, t: 2, run 2' on", said)
        self.assertNotIn("left out", "\n".join(plan.announced(self.steps, None)))

    def test_what_was_left_out_is_told_by_case(self):
        self.assertEqual(plan.left_out(self.steps[4:]), ["a, t: 2: 2 runs", "b, s: 3: 2 runs", "a, s: 1: 1 run"])

    def test_what_remains_is_learnt_from_what_was_done(self):
        self.assertEqual(plan.remaining(self.steps, []), 180)
        # The first took twice its estimate: so will the others, and it itself again.
        done = [(self.steps[0], 20.0)]
        self.assertEqual(plan.remaining(self.steps[1:4], done), 2 * 50 + 20)

    def test_the_whole_plan_fits_into_its_hour(self):
        """On two cores, with the sets that anybody has."""
        cases = []
        for name, rows in (("reviews", 20_000), ("flights", 310_979)):
            each = sets.empty_set(name)
            each.rows = rows
            cases += [(module.NAME, name, one) for module in report.SECTIONS.values()
                      for one in module.cases(each, sets.NORMAL)]
        some = plan.steps(cases, main.RUNS[sets.NORMAL])
        self.assertEqual(plan.fitting(some, 60 * main.MINUTES[sets.NORMAL]), len(some))
        self.assertGreaterEqual(main.RUNS[sets.NORMAL], 3)

    def test_cases_of_a_set_have_names_of_their_own(self):
        for name in sets.NAMES:
            each = sets.empty_set(name)
            for each.rows in (100, 5_000, 100_000):
                for size in (sets.QUICK, sets.NORMAL, sets.FULL):
                    for module in report.SECTIONS.values():
                        names = [one.name for one in module.cases(each, size)]
                        self.assertEqual(len(set(names)), len(names))
                        self.assertTrue(names)


class Frequency(unittest.TestCase):
    def test_the_buffers_target_is_a_share_of_the_rows_of_a_minute(self):
        self.assertEqual(frequency.target(10), 128)
        self.assertEqual(frequency.target(100), .3 * 60 * 100 / 4)
        self.assertEqual(frequency.target(1e6), 1024)

    def test_a_rate_for_which_a_set_is_too_short_is_not_measured(self):
        each = sets.empty_set("food")
        each.rows = 2_230
        rates = {one.params["rate"] for one in frequency.cases(each, sets.NORMAL)}
        self.assertEqual(rates, {10, 30, 100, 300, 1000, None})


# Two workers: 0 has a batch of 10 rows each second; 1 one of 20 every two seconds, and one more.
LINES = [(1000 * i, 0, 10 * i, 1.0) for i in range(1, 5)] + [(2000 * i, 1, 20 * i, 2.0) for i in range(1, 4)]


class Stream(unittest.TestCase):
    def test_rows_are_dealt_in_turns_as_by_a_producer_that_knows_how_fast_they_come(self):
        self.assertEqual([job.rows_per_turn(rate) for rate in (None, 5, 100, 1_000_000)], [256, 1, 10, 32])


class WorkerLog(Folder):
    def test_batches_stand_in_the_order_of_time_with_their_rows(self):
        some = worker_log.batches(LINES)
        self.assertEqual([batch.ms for batch in some], [1000, 2000, 2000, 3000, 4000, 4000, 6000])
        self.assertEqual([batch.rows for batch in some if batch.worker == 1], [20, 20, 20])
        self.assertEqual([batch.count for batch in some if batch.worker == 0], [1, 2, 3, 4])

    def test_rows_are_counted_up_to_a_moment(self):
        some = worker_log.batches(LINES)
        self.assertEqual(worker_log.rows_by(some, 3500), 30 + 20)
        self.assertEqual(worker_log.rows_by(some, 10_000), 40 + 60)

    def test_the_lead_is_that_of_the_first_over_the_last(self):
        self.assertEqual(worker_log.leads(worker_log.batches(LINES)), [1, 2, 1, 2, 3, 2, 1])

    def test_the_pace_is_that_of_the_time_in_which_all_work(self):
        pace = worker_log.pace(worker_log.batches(LINES))
        self.assertEqual(pace["rounds_per_s"], 2 / 3)
        self.assertEqual(pace["updates_per_s"], 6 / 3)
        self.assertEqual((pace["lead_median"], pace["lead_most"]), (2, 3))
        self.assertIsNone(worker_log.pace([])["rounds_per_s"])

    def test_a_curves_points_are_means_over_rows(self):
        seconds, rows, losses = worker_log.curve(worker_log.batches(LINES), 3)
        self.assertEqual(seconds, [1, 3, 5])
        self.assertEqual(rows, [40, 80, 100])
        self.assertEqual(losses, [(20 * 1 + 20 * 2) / 40, (20 * 1 + 20 * 2) / 40, 2])
        self.assertEqual(worker_log.curve([], 3), ([], [], []))

    def test_a_mean_so_far_is_of_all_rows(self):
        self.assertEqual(worker_log.so_far([10, 40], [1, 2]), [1, (10 + 60) / 40])

    def test_the_first_rows_of_a_curve_are_hidden(self):
        self.assertEqual(consistency.settled([1, 2, 3], [5, 10, 100], [.7, .6, .5]), ([2, 3], [.6, .5]))

    def test_a_log_is_read_by_the_names_of_its_columns(self):
        path = self.folder / "worker.csv"
        path.write_text("timestamp;partition;vectorClock;loss;fMeasure;accuracy;numTuplesSeen;rmse\n"
                        "5;1;0;0.5;0.1;0.2;32;\n6;1;1;0.25;0.1;0.2;64;\n")
        some = worker_log.read([path])
        self.assertEqual([(batch.ms, batch.rows, batch.loss) for batch in some], [(5, 32, .5), (6, 32, .25)])

    def test_a_short_stream_has_small_batches_and_few_points(self):
        self.assertEqual(consistency.batch_rows(1_500), 1)
        self.assertEqual(consistency.batch_rows(300_000), 32)
        self.assertEqual(consistency.points(1_500), 6)
        self.assertEqual(consistency.points(300_000), 40)


class Measured(unittest.TestCase):
    def test_failed_runs_are_told_and_not_counted(self):
        step = plan.Step("a", "s", case("1"), 1)
        all_results = results.Results()
        all_results.add(step, {"seconds": 2.0}, {"loss": [1]})
        all_results.add(step, error="no broker")
        all_results.add(step, {"seconds": 1.0})
        found = all_results.of("a", "s")["1"]
        self.assertEqual(found.spreads()["seconds"], {"min": 1, "median": 1.5, "max": 2, "runs": 2})
        self.assertEqual(all_results.errors(), ["a, s: 1: no broker"])
        self.assertEqual(all_results.of("a", "t"), {})
        json.dumps(all_results.as_json())

    def test_a_case_whose_runs_all_failed_has_no_line(self):
        all_results = results.Results()
        all_results.add(plan.Step("a", "s", case("1"), 1), error="no broker")
        self.assertEqual(all_results.of("a", "s"), {})

    def test_the_median_run_is_one_of_the_runs(self):
        found = results.Measured({}, [{"s": 5}, {"s": 1}, {"s": 3}, {}])
        self.assertEqual(found.median_run("s"), 2)
        self.assertIsNone(found.median_run("t"))


class Pages(unittest.TestCase):
    def setUp(self):
        table = blocks.Table("A table", [blocks.Column("name"), blocks.Column("loss", 4)],
                             [["a|b <c>", spread.spread([.5, .25, 1])], ["d", None]], "A caption.")
        panel = blocks.Panel("", "x", "y", [blocks.Series("", [1], [2])])
        self.sections = [("1. One", [blocks.Paragraph("Words & words."), table,
                                     blocks.Plot("drawn", "A plot", "What it shows.", [panel]),
                                     blocks.Plot("missing", "No plot", "", [panel])])]

    def test_markdown_has_tables_and_names_its_pictures(self):
        text = page.markdown("T", ["About."], self.sections, {"drawn": b"png"})
        self.assertIn("| a\\|b <c> | 0.2500/0.5000/1.0000 |\n| d | – |\n", text)
        self.assertIn("![A plot](plots/drawn.png)", text)
        self.assertIn("*No plot*: not drawn.", text)

    def test_html_refers_to_no_file(self):
        text = page.as_html("T", ["About."], self.sections, {"drawn": b"png"})
        self.assertIn("a|b &lt;c&gt;", text)
        self.assertIn('src="data:image/png;base64,cG5n"', text)
        self.assertNotIn("plots/", text)
        self.assertIn('<h2 id="1--one">', text)
        self.assertIn('href="#1--one"', text)

    def test_blocks_are_json_with_their_kinds(self):
        kinds = [blocks.as_json(block)["kind"] for block in self.sections[0][1]]
        self.assertEqual(kinds, ["paragraph", "table", "plot", "plot"])


class Balance(unittest.TestCase):
    def test_each_label_keeps_as_many_as_the_rarest_has_in_their_order(self):
        labels = ["5"] * 60 + ["1"] * 7 + ["5"] * 30 + ["3"] * 9
        kept = balance.balanced(labels)
        self.assertEqual(balance.histogram(labels[i] for i in kept), {"1": 7, "3": 7, "5": 7})
        self.assertEqual(kept, sorted(kept))
        self.assertEqual(kept, balance.balanced(labels), "the same rows again")
        self.assertNotEqual(kept, balance.balanced(labels, seed=2))
        self.assertGreater(sum(i >= 67 for i in kept if labels[i] == "5"), 0, "from all of the stream")

    def test_at_most_as_many_as_are_wanted_stay(self):
        labels = ["5"] * 60 + ["1"] * 7
        self.assertEqual(balance.histogram(labels[i] for i in balance.balanced(labels, 3)), {"1": 3, "5": 3})
        self.assertEqual(balance.balanced([]), [])


class Sets(Folder):
    def test_made_reviews_are_unequal_and_their_words_tell_the_score(self):
        rows = list(made_reviews.texts(4_000, 1))
        self.assertEqual(rows[:50], list(made_reviews.texts(50, 1)))
        self.assertNotEqual(rows[:50], list(made_reviews.texts(50, 2)))
        scores = collections.Counter(row[0] for row in rows)
        for score, share in zip(made_reviews.SCORES, made_reviews.SHARES):
            self.assertAlmostEqual(scores[score] / len(rows), share, delta=.02)
        words = made_reviews.vocabulary()
        good = {word for rank, word in enumerate(words) if rank % 20 == 19}  # every second one that speaks
        share = {score: sum(word in good for row in rows if row[0] == score for word in row[3].split()) /
                 sum(len(row[3].split()) for row in rows if row[0] == score) for score in (1, 5)}
        self.assertGreater(share[5], 2 * share[1])
        said = [row[3].split() for row in rows]
        self.assertGreater(sum(len(text) - len(set(text)) for text in said) / sum(map(len, said)), .15)

    def test_real_reviews_are_made_equal_and_the_scores_before_and_after_are_known(self):
        with open(self.folder / "reviews.csv", "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([["Score", "Time", "Summary", "Text"],
                                        *([1 + i % 5 if i < 50 else 5, i, "s", f"text, {i}"] for i in range(150))])
        each = sets.make("food", self.folder, self.folder / "out", sets.NORMAL)
        self.assertEqual(each.scores, [(s, 10, 10) for s in "1234"] + [("5", 110, 10)])
        self.assertEqual(each.rows, 50)
        header, rows = sets.read(each.path, None)
        self.assertEqual(len(rows), 50)
        times = [int(row[1]) for row in rows]
        self.assertEqual(times, sorted(times))
        tables = [block for block in report.sets_blocks([each]) if isinstance(block, blocks.Table)]
        self.assertEqual(tables[1].rows[4], ["5", "110", "10"])

    def test_the_script_that_prepares_reviews_balances_them(self):
        source = self.folder / "Reviews.csv"
        with open(source, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([["Score", "Time", "Summary", "Text"],
                                        *([5 if i % 3 else 1, 100 - i, "s", "t"] for i in range(90))])
        said = subprocess.run([sys.executable, "-B", ROOT / "datasets" / "reviews.py", "--balance", "--out",
                               self.folder, source], check=True, capture_output=True, text=True).stdout
        self.assertIn("score 5: 60 before, 30 after", said)
        _, rows = sets.read(self.folder / "reviews-balanced.csv", None)
        self.assertEqual(balance.histogram(row[0] for row in rows), {"1": 30, "5": 30})
        self.assertEqual(len(sets.read(self.folder / "reviews.csv", None)[1]), 90, "all, as well")

    def test_sets_that_are_not_prepared_are_not_available(self):
        self.assertEqual(sets.available(self.folder), ["reviews"])
        (self.folder / "flights-stream.csv").touch()
        self.assertEqual(sets.available(self.folder), ["reviews", "flights"])

    def test_the_first_rows_of_a_set_are_whole_rows(self):
        each = sets.empty_set("reviews")
        each.path, each.rows = str(self.folder / "r.csv"), 3
        sets.write(each.path, ["Score", "Text"], [["1", "two\nlines"], ["2", "b"], ["3", "c"]])
        self.assertEqual(sets.read(sets.first_rows(each, 2), None)[1], [["1", "two\nlines"], ["2", "b"]])
        self.assertEqual(sets.first_rows(each, 3), each.path)


class Programs(Folder):
    def test_a_program_that_fails_is_told_with_what_it_said_last(self):
        with programs.Programs(self.folder) as running:
            running.start("one", "sh", "-c", "echo this is why; exit 3")
            with self.assertRaisesRegex(programs.Failed, "one: exit code 3: this is why"):
                running.wait(["one"], 30)

    def test_what_a_program_used_is_known_at_its_end(self):
        with programs.Programs(self.folder) as running:
            running.start("one", sys.executable, "-c", "x = bytearray(100 << 20)\n"
                          "import time; t = time.process_time()\nwhile time.process_time() < t + .3: pass")
            running.wait(["one"], 60)
        self.assertGreater(running.peak_mib["one"], 100)
        self.assertLess(running.peak_mib["one"], 200)
        self.assertGreater(running.cpu_s["one"], .25)

    def test_nothing_runs_when_the_block_is_left(self):
        with self.assertRaises(KeyboardInterrupt), programs.Programs(self.folder) as running:
            running.start("one", "sleep", "600")
            pid = running.running["one"].pid
            running.signal("one", signal.SIGSTOP)
            raise KeyboardInterrupt
        self.assertFalse(pathlib.Path(f"/proc/{pid}").exists())

    def test_a_straggler_stands_still_for_most_of_the_time(self):
        with programs.Programs(self.folder) as running:
            running.start("one", "sleep", "600")
            stat = pathlib.Path(f"/proc/{running.running['one'].pid}/stat")
            states = collections.Counter()
            with straggler.Straggler(running, "one"):
                for _ in range(200):
                    time.sleep(straggler.PERIOD_S / 10.7)
                    states[stat.read_text().rsplit(")", 1)[1].split()[0]] += 1
        # Roughly, since threads are not always woken in time.
        self.assertGreater(states["T"], 80)
        self.assertGreater(states["S"], 5)

    def test_a_straggler_runs_on_when_the_block_is_left(self):
        with programs.Programs(self.folder) as running:
            running.start("one", "sleep", "1")
            with straggler.Straggler(running, "one"):
                time.sleep(.1)
            running.wait(["one"], 60)


class Usage(unittest.TestCase):
    def run_script(self, *words):
        return subprocess.run([ROOT / "scripts" / "evaluate", *words], check=False, capture_output=True, text=True,
                              timeout=60)

    def test_help_teaches(self):
        done = self.run_script("--help")
        self.assertEqual(done.returncode, 0)
        for section in report.SECTIONS:
            self.assertIn(section, done.stdout)
        for name in sets.NAMES:
            self.assertIn(name, done.stdout)

    def test_wrong_usage_is_2(self):
        for words in (["--minutes", "x"], ["--sets"], ["what"]):
            done = self.run_script(*words)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("--help", done.stderr)

    def test_names_that_do_not_exist_are_told(self):
        common = ["--apps", "a", "--data", "d", "--out", "o"]
        for words in (["--sets", "wine"], ["--sections", "price"], ["--quick", "--full"], ["--sets", "food"]):
            with self.assertRaises(SystemExit) as ended:
                main.parse([*common, *words])
            self.assertEqual(ended.exception.code, 2)


if __name__ == "__main__":
    unittest.main()
