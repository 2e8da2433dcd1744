#!/usr/bin/env python3
"""scripts/learning: its figures, its promises, its sets; learn_csv against a plain loop; a short run."""

import contextlib
import io
import json
import math
import os
import pathlib
import random
import re
import shlex
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "learning"))

import data_sets  # noqa: E402
import draws  # noqa: E402
import figures  # noqa: E402
import grid  # noqa: E402
import main  # noqa: E402
import peers  # noqa: E402
import promises  # noqa: E402
import report  # noqa: E402

LEARN_CSV = os.environ.get("MILLRACE_LEARN_CSV", "")


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="millrace-scripts-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class Figures(unittest.TestCase):
    def test_auc_is_the_chance_that_a_positive_row_has_the_higher_score(self):
        r = random.Random(1)
        scores = [r.randrange(8) / 8 for _ in range(60)]
        labels = [r.randrange(2) for _ in scores]
        pairs = [(a, b) for a, x in zip(scores, labels) if x for b, y in zip(scores, labels) if not y]
        expected = sum((a > b) + (a == b) / 2 for a, b in pairs) / len(pairs)
        self.assertAlmostEqual(figures.auc(scores, labels), expected)
        self.assertIsNone(figures.auc([.1, .2], [1, 1]))

    def test_weighted_f1_is_as_scikit_learn_has_it(self):
        # f1_score([0, 1, 2, 0, 1, 2], [0, 2, 1, 0, 0, 1], average="weighted")
        self.assertAlmostEqual(figures.f1_weighted([0, 1, 2, 0, 1, 2], [0, 2, 1, 0, 0, 1]), .8 / 3)

    def test_losses_are_those_of_the_definitions(self):
        found = figures.of_classes([0, 1, 1, 1], [[.5, .5], [.2, .8], [.9, .1], [1, 0]])
        self.assertAlmostEqual(found["log_loss"],
                               -(math.log(.5) + math.log(.8) + math.log(.1) + math.log(1e-15)) / 4)
        self.assertAlmostEqual(found["prior_log_loss"], -.25 * math.log(.25) - .75 * math.log(.75))
        self.assertAlmostEqual(found["accuracy"], .5)
        found = figures.of_regression([1.0, 2.0, 6.0], [1.0, 4.0, 5.0])
        self.assertAlmostEqual(found["rmse"], math.sqrt(5 / 3))
        self.assertAlmostEqual(found["mae"], 1)
        self.assertAlmostEqual(found["r2"], 1 - 5 / 14)

    def test_the_last_fifth_is_rounded_as_by_learn_csv(self):
        self.assertEqual(list(range(13))[figures.last_fifth(13)], [11, 12])


def classes(log_loss=.5, auc=.8, prior=.6, rows=30_000):
    part = {"rows": rows, "log_loss": log_loss, "prior_log_loss": prior, "accuracy": .7,
            "f1_weighted": .7, "auc": auc}
    return {"rows": rows, "whole": part, "last_fifth": {**part, "rows": rows // 5}}


def results(ours=None, tuned=None, river=None, vw=None, rows=30_000, **others):
    ours = ours or classes(rows=rows)
    defaults = {setting.name: ours for setting in grid.DEFAULTS}
    defaults.update({name.replace("_", " "): result for name, result in others.items()})
    return {"rows": rows, "about": "", "defaults": defaults, "grid": {"tuned": tuned or ours},
            "peers": {"river": river or ours, "vw": vw or {"error": "not installed"}}}


def broken(**given):
    return {each.promise for each in promises.broken(results(**given))}


class Promises(unittest.TestCase):
    def test_equal_figures_break_none(self):
        self.assertEqual(broken(), set())

    def test_a_loss_beyond_the_priors(self):
        self.assertEqual(broken(ours=classes(log_loss=.604, prior=.6)), set())
        self.assertEqual(broken(ours=classes(log_loss=.606, prior=.6)), {"at most the prior"})
        self.assertEqual(broken(ours=classes(log_loss=math.nan)), {"at most the prior"})

    def test_a_loss_above_the_priors_where_a_peers_is_below(self):
        self.assertEqual(broken(ours=classes(log_loss=.601), vw=classes(log_loss=.599)),
                         {"below the prior where a peer is"})

    def test_a_grid_that_is_better_by_more_than_a_hundredth(self):
        self.assertEqual(broken(tuned=classes(auc=.81)), set())
        self.assertEqual(broken(tuned=classes(auc=.812)), {"within .01 of the grid's best"})

    def test_a_peer_that_is_better_to_three_places(self):
        self.assertEqual(broken(river=classes(auc=.8004)), set())
        self.assertEqual(broken(river=classes(auc=.801)), {"not below a peer"})

    def test_quality_is_not_judged_where_nobody_beats_the_prior(self):
        ours = classes(log_loss=.5995, auc=.5)
        self.assertEqual(broken(ours=ours, river=classes(log_loss=.61, auc=.53)), set())
        self.assertEqual(broken(ours=classes(log_loss=.598, auc=.5), river=classes(log_loss=.61, auc=.53),
                                tuned={"error": "none"}), {"not below a peer"})

    def test_four_workers_that_are_worse_than_one_on_long_streams_only(self):
        worse = classes(auc=.78)
        self.assertEqual(broken(**{"4_workers_by_32": worse}), {"four workers within .01 of one"})
        self.assertEqual(broken(**{"4_workers_by_256": worse}),
                         {"batches of 256 within .01 of batches of 1"})
        unknown = classes(auc=None)
        self.assertEqual(broken(**{"4_workers_by_32": unknown}), {"four workers within .01 of one"})
        self.assertEqual(broken(ours=unknown), set(), "there is nothing to hold them against")
        short = classes(rows=19_000)
        self.assertEqual(broken(ours=short, **{"4_workers_by_32": classes(auc=.78, rows=19_000)}), set())

    def test_what_a_user_gets_who_sets_nothing_is_held_to_every_promise(self):
        for ours, others, promise in (
                (classes(log_loss=.606), {}, "at most the prior"),
                (classes(log_loss=.601), {"vw": classes(log_loss=.599)}, "below the prior where a peer is"),
                (classes(auc=.788), {}, "within .01 of the grid's best"),
                (classes(auc=.799), {}, "not below a peer"),
                (classes(auc=.788), {}, "four workers within .01 of one"),
                (classes(auc=.788), {}, "batches of 256 within .01 of batches of 1")):
            found = [each for each in promises.broken(results(**{"as_started": ours}, **others))
                     if each.promise == promise]
            self.assertEqual([each.part for each in found], ["whole", "last_fifth"], promise)
            for each in found:
                self.assertTrue(each.detail.startswith("as started: "), each.detail)
        self.assertEqual(grid.DEFAULTS[0].flags, ())

    def test_a_short_last_fifth_is_not_judged(self):
        ours = classes(rows=4000)
        ours["last_fifth"]["log_loss"] = 5
        self.assertEqual(broken(ours=ours, river=classes()), set())
        ours["last_fifth"]["rows"] = 1000
        self.assertIn("at most the prior", broken(ours=ours, river=classes()))

    def test_more_classes_are_judged_by_accuracy_and_weighted_f1(self):
        tuned = classes(auc=None)
        tuned["whole"] = {**tuned["whole"], "f1_weighted": .75}
        found = promises.broken(results(ours=classes(auc=None), tuned=tuned))
        self.assertEqual([each.detail for each in found], ["as started: f1_weighted 0.7000, tuned 0.7500",
                                                           "1 worker: f1_weighted 0.7000, tuned 0.7500"])

    def test_a_regression_is_judged_by_rmse_and_r2(self):
        def regression(rmse, r2):
            part = {"rows": 2000, "rmse": rmse, "prior_rmse": 10, "mae": 1, "r2": r2}
            return {"rows": 2000, "whole": part, "last_fifth": None}

        self.assertEqual(broken(ours=regression(9, .19), tuned=regression(8, .36)),
                         {"within .01 of the grid's best"})
        self.assertEqual(broken(ours=regression(10.06, -.01), river=regression(10.07, -.02)),
                         {"at most the prior"})

    def test_what_failed_breaks_no_promise_and_is_in_the_report(self):
        failed = {"error": "learn_csv: no such model"}
        found = results()
        found["defaults"] = {setting.name: failed for setting in grid.DEFAULTS}
        found["broken"] = promises.broken(found)
        self.assertEqual(found["broken"], [])
        page = report.page({"iris": found}, [])
        self.assertIn("| iris | 30,000 | learn_csv: no such model |", page)
        self.assertIn("2 more: learn_csv: no such model", page)


class Draws(unittest.TestCase):
    """Of a set whose first draw breaks a promise."""

    def verdict(self, missed, promise="not below a peer", **first):
        found = next(each for each in promises.broken(results(**first)) if each.promise == promise)
        made = []
        for each in missed:
            given = {("defaults", found.ours): classes(auc=.8, log_loss=.6 + each, prior=.6)}
            given.update({(found.kind, name): classes(auc=.8 + each) for name in found.others[:1]})
            made.append(given)
        return draws.verdict(found, made)

    def test_what_all_draws_miss_is_broken(self):
        found = self.verdict([.004, .005, .006], river=classes(auc=.81))
        self.assertEqual((found.word, found.draws), (draws.BROKEN, 3))
        self.assertAlmostEqual(found.mean, .005 - promises.EQUAL)
        self.assertAlmostEqual(found.error, .001 / math.sqrt(3))

    def test_what_some_miss_by_as_much_as_others_keep_it_is_chance(self):
        self.assertEqual(self.verdict([.02, -.01, .001], river=classes(auc=.81)).word, draws.CHANCE)

    def test_what_the_mean_keeps_is_kept(self):
        self.assertEqual(self.verdict([-.004, .0005, .0005], river=classes(auc=.81)).word, draws.KEPT)

    def test_a_loss_is_held_against_the_prior_of_its_own_draw(self):
        beyond = {"promise": "at most the prior", "ours": classes(log_loss=.61)}
        self.assertEqual(self.verdict([.006, .0061, .0062], **beyond).word, draws.BROKEN)
        self.assertEqual(self.verdict([.001, .002, .003], **beyond).word, draws.KEPT)

    def test_the_better_peer_counts_and_one_draw_tells_nothing(self):
        found = next(iter(promises.broken(results(river=classes(auc=.81)))))
        self.assertEqual(draws.needed([found]), [("defaults", "as started"), ("peers", "river"), ("peers", "vw")])
        one = {("defaults", "as started"): classes(), ("peers", "river"): {"error": "late"},
               ("peers", "vw"): classes(auc=.9)}
        self.assertAlmostEqual(draws.verdict(found, [one, one]).mean, .1 - promises.EQUAL)
        self.assertIsNone(draws.verdict(found, [one]))

    def test_workers_are_held_against_workers_and_a_grid_against_its_best(self):
        found = promises.broken(results(**{"4_workers_by_256": classes(auc=.78)}))
        self.assertEqual(draws.needed(found), [("defaults", "4 workers by 1"), ("defaults", "4 workers by 256")])
        found = promises.broken(results(tuned=classes(auc=.82)))
        self.assertEqual(draws.needed(found), [("defaults", "1 worker"), ("defaults", "as started"),
                                               ("grid", "tuned")])

    def test_the_report_tells_what_the_first_draw_broke(self):
        found = results(river=classes(auc=.81))
        verdict = self.verdict([.02, -.01, .001], river=classes(auc=.81))
        page = report.page({"iris": {**found, "broken": [], "judged": [verdict]}}, [])
        self.assertIn("as started: auc 0.8000, river 0.8100 | missed by +0.0032 ± 0.0088 in the mean of 3 other draws "
                      "| not more than chance |", page)
        self.assertIn("None: every promise is kept", page)


class Grid(unittest.TestCase):
    def test_it_has_at_least_forty_settings_of_every_kind_of_update(self):
        settings = grid.grid()
        self.assertGreaterEqual(len(settings), 40)
        self.assertEqual(len({setting.name for setting in settings}), len(settings))
        self.assertEqual(len({setting.flags for setting in settings}), len(settings))
        words = [" ".join(setting.flags) for setting in settings]
        for given in ("--update gradient", "--update weight-change", "--update online", "--optimizer sgd",
                      "--optimizer adagrad", "--optimizer adam", "--optimizer ftrl", "--decay", "--l2"):
            self.assertTrue(any(given in each for each in words), given)


class Sets(Folder):
    def test_generated_sets_are_the_same_each_time(self):
        for make in (data_sets.noise, data_sets.heavy_tails, data_sets.scales, data_sets.clicks):
            self.assertEqual(list(make(rows=50)), list(make(rows=50)))
            self.assertNotEqual(list(make(rows=50)), list(make(draw=1, rows=50)))

    def test_a_draw_has_a_file_of_its_own_and_what_is_in_order_has_one(self):
        made = data_sets.DataSet("made", "", lambda draw: [[0, draw]], ["a"], draw=2)
        self.assertEqual(data_sets.write(made, self.folder), 1)
        self.assertEqual((self.folder / "made-2.csv").read_text(), "label,a\n0,2\n")
        alone = {each.name for each in data_sets.all_sets(make_text="make_text") if not each.can_be_drawn_again()}
        self.assertEqual(alone, {"trump-approval"})

    def test_a_fifth_of_the_noise_is_positive_and_three_percent_of_clicks(self):
        self.assertAlmostEqual(sum(row[0] for row in data_sets.noise()) / 20_000, .2, delta=.01)
        self.assertAlmostEqual(sum(row[0] for row in data_sets.clicks(rows=20_000)) / 20_000, .03, delta=.004)

    def test_a_file_keeps_the_columns_that_are_used_and_the_parts_of_crosses(self):
        source = self.folder / "source.csv"
        source.write_text("a,b,c,d,late\n1,x,y,z,no\n2,u,v,w,yes\n3,,,,no\n")
        made = data_sets.DataSet("made", "", None, ["a"], ["b*d"], label="late", file=str(source))
        self.assertEqual(data_sets.write(made, self.folder, 2), 2)
        self.assertEqual(pathlib.Path(made.path).read_text(), "a,b,d,late\n1,x,z,no\n2,u,w,yes\n")
        self.assertEqual(made.flags(), ["--input", made.path, "--label", "late", "--numeric", "a",
                                        "--categorical", "b*d"])


    def test_every_set_runs_as_given_by_the_defaults(self):
        (self.folder / "flights.csv").write_text("")
        (self.folder / "reviews.csv").write_text("")
        sets = data_sets.all_sets(str(self.folder), "make_text")
        self.assertLessEqual({"texts", "reviews", "flights", "clicks-crossed"}, {each.name for each in sets})
        of_columns = {"--input", "--label", "--numeric", "--categorical", "--text", "--regression"}
        for each in sets:
            self.assertLessEqual({word for word in each.flags() if word.startswith("--")}, of_columns, each.name)


class Peers(Folder):
    def rows(self, content, **described):
        path = self.folder / "rows.csv"
        path.write_text(content)
        return peers.Rows({"path": str(path), "label": "y", "numeric": [], "categorical": [], "text": "",
                           "regression": False, **described})

    def test_get_numbers_categories_crosses_and_words_by_their_length(self):
        rows = self.rows("y,n,c,d,t\nyes,1.5,a,b,The the cat I\n", numeric=["n"], categorical=["c", "c*d"],
                         text="t")
        self.assertEqual(list(rows.features()),
                         [({"n": 1.5}, {"c=a": 1, "c*d=a*b": 1, "w_the": 2 / math.sqrt(5),
                                        "w_cat": 1 / math.sqrt(5)})])

    def test_class_numbers_are_in_the_order_of_numbers(self):
        rows = self.rows("y,n\n10,1\n9,1\n10,1\n", numeric=["n"])
        self.assertEqual((rows.classes, rows.truths), (["9", "10"], [1, 0, 1]))

    def test_a_prior_knows_the_rows_before(self):
        self.assertEqual(peers.prior(self.rows("y,n\na,1\nb,1\na,1\n", numeric=["n"])),
                         [[.5, .5], [2 / 3, 1 / 3], [.5, .5]])
        rows = self.rows("y,n\n4,1\n2,1\n9,1\n", numeric=["n"], regression=True)
        self.assertEqual(peers.prior(rows), [0, 4, 3])

    def test_vowpal_wabbits_lines_and_predictions(self):
        self.assertEqual(peers.vw_line(-1, {"a b": .5, "zero": 0.0}, {"c=x:y|z": 1.0, "w": .25}),
                         "-1 | a_b:0.5 c=x_y_z w:0.25\n")
        (first, second), = peers.vw_predictions(["1.0986123\n"], 2)
        self.assertAlmostEqual(second, .75, places=6)
        (told,) = peers.vw_predictions(["2:0 1:1.0986123 3:0\n"], 3)
        self.assertAlmostEqual(told[0], .75 / 1.75, places=6)
        self.assertAlmostEqual(first, .25, places=6)


def plain_loop(rows, workers, batch, rate):
    """Softmax regression of two classes by gradient descent, tested before it is trained: the figures
    of (label, x) rows, by a loop that knows no workers but as slices of a round."""
    width = len(rows[0][1]) + 1
    weights = [[0.0] * width, [0.0] * width]
    predictions = [None] * len(rows)
    step = workers * batch
    for begin in range(0, len(rows), step):
        part = range(begin, min(begin + step, len(rows)))
        slope = [[0.0] * width, [0.0] * width]
        for i in part:
            label, x = rows[i][0], [*rows[i][1], 1.0]
            scores = [sum(w * v for w, v in zip(column, x)) for column in weights]
            predictions[i] = peers.softmax(scores)
            for k in (0, 1):
                error = predictions[i][k] - (label == k)
                slope[k] = [s + error * v for s, v in zip(slope[k], x)]
        for k in (0, 1):
            weights[k] = [w - rate * s / len(part) for w, s in zip(weights[k], slope[k])]
    return figures.both(figures.of_classes, [label for label, _ in rows], predictions)


@unittest.skipUnless(LEARN_CSV, "MILLRACE_LEARN_CSV names the program; ctest sets it")
class ChooseAModel(Folder):
    def test_the_commands_of_the_page_tell_which_model_is_better(self):
        page = (ROOT / "docs" / "choose-a-model.md").read_text(encoding="utf-8")
        commands = [text.replace("\\\n", " ") for text in re.findall(r"^    (\S(?:.*\\\n)*.*)", page, re.M)]
        made, *learnt = [shlex.split(text) for text in commands if "scripts/" not in text]
        self.assertEqual(made, ["python3", "datasets/made_pairs.py", "--out", "build/data"])
        subprocess.run([sys.executable, "-B", ROOT / made[1], "--out", self.folder], check=True,
                       stdout=subprocess.DEVNULL)
        losses = []
        for program, *words in learnt:
            self.assertEqual(program, "build/release/benchmarks/learning/learn_csv")
            words = [word.replace("build/data", str(self.folder)) for word in words]
            done = subprocess.run([LEARN_CSV, *words], text=True, capture_output=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            losses.append(json.loads(done.stdout)["whole"]["log_loss"])
        linear, crossed, network, ids, fm, deepfm = losses
        self.assertLess(max(crossed, network), linear - .2)
        self.assertLess(max(fm, deepfm), ids - .05)
        for loss in losses:  # as the page has them
            self.assertIn(f"{loss:.3f}"[1:], page)


@unittest.skipUnless(LEARN_CSV, "MILLRACE_LEARN_CSV names the program; ctest sets it")
class LearnCsv(Folder):
    def setUp(self):
        super().setUp()
        r = random.Random(9)
        self.rows = []
        for _ in range(502):
            x = [round(r.gauss(0, 1), 3) for _ in range(3)]
            self.rows.append((int(r.random() < data_sets.chance(x[0] - 2 * x[1] + .5)), x))
        self.csv = self.folder / "rows.csv"
        self.csv.write_text("a,b,c,y\n" + "".join(f"{','.join(map(str, x))},{y}\n" for y, x in self.rows))

    def learn(self, *words, code=0):
        done = subprocess.run([LEARN_CSV, "--input", self.csv, "--label", "y", "--numeric", "a,b,c", *words],
                              text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return json.loads(done.stdout) if code == 0 else done.stderr

    def assert_figures(self, found, expected, delta):
        for part in ("whole", "last_fifth"):
            self.assertEqual(found[part].keys(), expected[part].keys())
            for name, value in expected[part].items():
                self.assertAlmostEqual(found[part][name], value, delta=delta, msg=(part, name))

    def test_a_job_of_several_workers_has_the_figures_of_a_plain_loop(self):
        # (A turn is a batch, so a full round has the rows of a slice of the stream.)
        for workers, batch in ((1, 1), (3, 5)):
            found = self.learn("--workers", str(workers), "--update", "gradient", "--optimizer", "sgd",
                               "--learning-rate", "0.5", "--scaling", "none", "--batch-rows", str(batch),
                               "--rows-per-turn", str(batch))
            self.assertEqual((found["rows"], found["update"]), (502, "GRADIENT"))
            # The AUC is that of a histogram.
            self.assert_figures(found, plain_loop(self.rows, workers, batch, .5), delta=1e-3)

    def test_a_model_that_is_worse_than_the_class_frequencies_is_called_so(self):
        self.assertIsNone(self.learn()["worse_than_prior"])
        self.csv.write_text("a,b,c,y\n" + "".join(f"{','.join(map(str, x))},{y}\n" for y, x in self.rows * 2))
        self.assertIsNone(self.learn()["worse_than_prior"])
        found = self.learn("--update", "gradient", "--optimizer", "sgd", "--learning-rate", "50")
        self.assertIn(f"its log loss is {found['whole']['log_loss']:.4f}, theirs is ", found["worse_than_prior"])
        self.assertIn("Lower --learning-rate", found["worse_than_prior"])

    def test_the_defaults_are_those_of_a_job_and_one_workers_batch_makes_no_difference(self):
        small, large = (self.learn("--workers", "1", "--batch-rows", rows) for rows in ("1", "100"))
        self.assertEqual(small["update"], "ONLINE")
        self.assert_figures(small, large, delta=1e-4)
        self.assertLess(small["whole"]["log_loss"], .8 * small["whole"]["prior_log_loss"])

    def test_a_regression_has_its_own_figures(self):
        self.csv.write_text("a,b,c,y,u\n" + "".join(f"{i},1,2,{i % 3},u{i % 5}\n" for i in range(60)))
        found = self.learn("--regression", "--ids", "u", "--model", "fm", "--workers", "2")
        self.assertEqual(list(found["whole"]), ["rows", "rmse", "prior_rmse", "mae", "r2"])
        self.assertEqual(found["last_fifth"]["rows"], 12)

    def test_on_a_buffer_each_row_is_learnt_from_as_in_one_pass(self):
        # (Those that are repeated after the last one were tested before.)
        fixed = self.folder / "fixed.config"
        fixed.write_text("training { batch_rows: 32 first_batch_rows: 32 }")
        self.assertEqual(self.learn("--schedule", "buffer")["whole"], self.learn("--config", fixed)["whole"])

    def test_several_workers_send_gradients_of_buffers_that_hold_a_part_of_their_rows(self):
        self.csv.write_text("a,b,c,y\n" + "".join(f"{','.join(map(str, x))},{y}\n" for y, x in self.rows * 10))
        found = self.learn("--schedule", "buffer", "--update", "gradient", "--workers", "2")
        self.assertEqual((found["whole"]["rows"], found["update"]), (5020, "GRADIENT"))
        self.assertLess(found["last_fifth"]["log_loss"], .8 * found["last_fifth"]["prior_log_loss"])

    def test_batches_of_an_online_learner_may_be_large_without_loss(self):
        r = random.Random(5)
        effects = [[r.gauss(0, 1.5) for _ in range(100)] for _ in range(3)]
        with open(self.csv, "w", encoding="utf-8") as out:
            out.write("a,b,c,y\n")
            for _ in range(4000):
                row = [r.randrange(100) for _ in effects]
                out.write(f"{','.join(f'v{i}' for i in row)},"
                          f"{int(r.random() < data_sets.chance(sum(each[i] for each, i in zip(effects, row))))}\n")
        fixed = self.folder / "fixed.config"
        fixed.write_text("training { batch_rows: 256 first_batch_rows: 256 }")
        aucs = []
        for words in (["--batch-rows", "1"], ["--batch-rows", "256"], ["--config", fixed]):
            words += ["--numeric", "", "--categorical", "a,b,c", "--workers", "4"]
            aucs.append(self.learn(*words)["whole"]["auc"])
        self.assertLess(abs(aucs[0] - aucs[1]), .01)
        # The first of four rounds of fixed batches is learnt by workers that know nothing of each other.
        self.assertLess(aucs[2], aucs[0] - .02)

    def test_updates_in_16_bits_cost_an_online_learner_next_to_nothing(self):
        # As the flights: numbers, and columns of some dozen values that say more; four workers.
        r = random.Random(3)
        effects = [[r.gauss(0, .8) for _ in range(40)] for _ in range(2)]
        with open(self.csv, "w", encoding="utf-8") as out:
            out.write("a,b,c,from,to,y\n")
            for _ in range(12_000):
                a, b, c = r.gauss(0, 1), r.expovariate(.01), r.uniform(-5, 5)
                ends = [int(40 * r.random() ** 2) for _ in effects]
                score = .7 * a - .002 * b + sum(each[end] for each, end in zip(effects, ends)) - .5
                out.write(f"{a:.3f},{b:.1f},{c:.2f},f{ends[0]},t{ends[1]},{int(r.random() < data_sets.chance(score))}\n")
        losses = {}
        for values in ("none", "bf16"):
            found = self.learn("--categorical", "from,to,from*to", "--workers", "4", "--compress", values)
            self.assertEqual(found["update"], "ONLINE")
            losses[values] = found["whole"]["log_loss"]
            self.assertLess(losses[values], found["whole"]["prior_log_loss"] - .05)
        self.assertNotEqual(losses["bf16"], losses["none"])
        self.assertLess(losses["bf16"], losses["none"] + .002)

    def test_rows_that_cannot_be_used_are_counted(self):
        with open(self.csv, "a", encoding="utf-8") as file:
            file.write("1,2\n")
        self.assertEqual(self.learn()["rejected"], 1)

    def test_what_it_cannot_run_it_says(self):
        self.assertIn("give bf16", self.learn("--compress", "fp16", code=2))
        self.assertIn("finds its own rates", self.learn("--update", "online", "--learning-rate", "1", code=2))
        self.csv.write_text("a,b,c,y\nx,1,2,0\nx,1,2,1\n")
        self.assertIn("line 3", self.learn("--classes", "0,1", "--missing", "reject", code=1))


class Runs(Folder):
    def test_a_program_that_fails_or_does_not_end_is_a_result(self):
        runner = main.Runner()
        self.assertEqual(runner.run(["sh", "-c", "echo once >&2; echo 'no: why' >&2; exit 1"], 9),
                         {"error": "no: why"})
        self.assertEqual(runner.run(["sh", "-c", "while :; do :; done"], 1),
                         {"error": "needs more than 1 s of processor time"})
        self.assertEqual(runner.run(["sleep", "60"], .1), {"error": "took longer than 1.0 s"})
        self.assertEqual(runner.run(["echo", '{"rows": 1}'], 9), {"rows": 1})
        runner.stop()
        self.assertEqual(runner.run(["echo", "{}"], 9), {"error": "interrupted"})

    def test_an_unknown_set_or_peer_is_named(self):
        for words, said in ((["--sets", "noise,wime"], "no set is called wime"),
                            (["--peers", "river,vv"], "no peer is called vv")):
            told = io.StringIO()
            with self.assertRaises(SystemExit) as raised, contextlib.redirect_stderr(told):
                main.main(["--learn-csv", "x", "--out", str(self.folder), *words])
            self.assertEqual(raised.exception.code, 2)
            self.assertIn(said, told.getvalue())

    def test_the_grid_is_not_tried_where_the_defaults_have_failed(self):
        comparison = main.Comparison(*main.parse(["--learn-csv", "x", "--out", str(self.folder), "--quick",
                                                  "--sets", "noise,diabetes"]))
        for name, result in (("noise", {"rows": 1}), ("diabetes", {"error": "not yet"})):
            comparison.results[name] = {"defaults": {grid.ONE: result}}
        self.assertEqual({each.name for _, each, _, _ in comparison.grid_jobs()}, {"noise"})

    def compare(self, *words):
        said, told = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(told):
            main.main(["--learn-csv", LEARN_CSV, "--out", str(self.folder), "--peers", "none", "--quick", *words])
        return said.getvalue(), told.getvalue()

    @unittest.skipUnless(LEARN_CSV, "MILLRACE_LEARN_CSV names the program; ctest sets it")
    def test_a_short_comparison_has_every_run_in_its_report(self):
        said, told = self.compare("--sets", "noise,scales,clicks")
        found = json.loads((self.folder / "report.json").read_text())
        self.assertEqual(list(found), ["noise", "scales", "clicks"])
        for name, each in found.items():
            self.assertEqual(each["rows"], data_sets.QUICK_ROWS)
            self.assertEqual(list(each["defaults"]), [setting.name for setting in grid.DEFAULTS])
            self.assertEqual(len(each["grid"]), len(grid.grid()[::main.QUICK_EVERY]))
            self.assertEqual(list(each["peers"]), ["prior"])
            for kind in ("defaults", "grid", "peers"):
                for setting, result in each[kind].items():
                    self.assertNotIn("error", result, (name, setting))
            # One rule for what is tested, and when: the frequencies of the same rows.
            self.assertAlmostEqual(each["peers"]["prior"]["whole"]["prior_log_loss"],
                                   each["defaults"][grid.ONE]["whole"]["prior_log_loss"])
        self.assertLess(found["scales"]["defaults"][grid.ONE]["whole"]["log_loss"], .6)
        page = (self.folder / "report.md").read_text()
        self.assertIn("These figures say nothing", page)
        self.assertNotIn("still running", page)
        self.assertIn("| scales | 2,000 | AUC |", page)
        self.assertIn("Broken promises", said)
        self.assertIn("runs", told)

    @unittest.skipUnless(LEARN_CSV, "MILLRACE_LEARN_CSV names the program; ctest sets it")
    def test_who_interrupts_the_grid_has_the_defaults(self):
        with mock.patch.object(main.Comparison, "grid_jobs", side_effect=KeyboardInterrupt):
            with self.assertRaises(KeyboardInterrupt):
                self.compare("--sets", "noise")
        page = (self.folder / "report.md").read_text()
        self.assertIn("| noise | 2,000 | AUC |", page)
        self.assertIn("The grid was still running", page)

    @unittest.skipUnless(LEARN_CSV, "MILLRACE_LEARN_CSV names the program; ctest sets it")
    def test_what_time_does_not_suffice_for_is_told(self):
        self.compare("--sets", "noise", "--minutes", "0")
        self.assertIn("left out: --minutes were over", (self.folder / "report.md").read_text())


if __name__ == "__main__":
    unittest.main()
