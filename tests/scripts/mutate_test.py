#!/usr/bin/env python3
"""scripts/mutate: its operators, its draw, its records, and whom it lets test a folder."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import tempfile
import unittest
from unittest import mock

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
loader = importlib.machinery.SourceFileLoader("mutate", os.path.join(ROOT, "scripts", "mutate"))
mutate = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutate", loader))
loader.exec_module(mutate)
mutations = mutate.mutations


def mutated(line, before="  {\n"):
    """{operator: [line after]} of one line within a function."""
    found = {}
    for mutation in mutations.mutations_of("a.cc", before + line):
        if mutation.line == before.count("\n") + 1:
            found.setdefault(mutation.operator, []).append(mutation.after.strip())
    return found


def write(root, path, text):
    path = os.path.join(root, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


class Operators(unittest.TestCase):
    def test_a_comparison_is_moved_to_its_edge_or_turned_round(self):
        self.assertEqual(mutated("  return a < b;")["< to <="], ["return a <= b;"])
        self.assertEqual(mutated("  return a >= b;")[">= to >"], ["return a > b;"])
        self.assertEqual(mutated("  return a == b;")["== to !="], ["return a != b;"])
        self.assertEqual(mutated("  return a == b &&")["&& to ||"], ["return a == b ||"])

    def test_arithmetic_is_turned_round(self):
        self.assertEqual(mutated("  x = a + b * c;")["+ to -"], ["x = a - b * c;"])
        self.assertEqual(mutated("  x = a + b * c;")["* to /"], ["x = a + b / c;"])
        self.assertEqual(mutated("  sum += a;")["+= to -="], ["sum -= a;"])
        self.assertEqual(mutated("  ++rows_;")["++ to --"], ["--rows_;"])

    def test_constants_are_off_by_one_and_truths_are_lies(self):
        self.assertEqual(mutated("  x = 7;")["constant + 1"], ["x = 8;"])
        self.assertEqual(mutated("  x = 7;")["constant - 1"], ["x = 6;"])
        self.assertNotIn("constant - 1", mutated("  x = 0;"))
        self.assertEqual(mutated("  x = 0.5f;")["constant + 1"], ["x = 1.5f;"])
        self.assertEqual(mutated("  x = true;")["true to false"], ["x = false;"])

    def test_a_condition_is_negated_and_its_block_skipped(self):
        found = mutated("  if (Status s = F(); a.ok()) {")
        self.assertEqual(found["negated condition"], ["if (Status s = F(); !(a.ok())) {"])
        self.assertEqual(found["skipped block"], ["if (Status s = F(); false) {"])
        self.assertEqual(mutated("  return !a.ok();")["removed !"], ["return a.ok();"])

    def test_a_statement_or_a_guard_is_removed(self):
        self.assertEqual(mutated("  rows_.clear();")["removed statement"], [";"])
        self.assertEqual(mutated("  rows_[a] = b;")["removed statement"], [";"])
        self.assertEqual(mutated("  if (a) return b;")["removed guard"], [";"])
        self.assertEqual(mutated("  if (a) continue;")["removed guard"], [";"])
        self.assertEqual(mutated("  if (a) F();")["removed statement"], [";"])

    def test_what_would_not_compile_without_it_stays(self):
        for line in ("  int a = b;", "  const auto& a = b;", "  return a;", "  std::string text;",
                     "  std::vector<int> a(b);", "  for (int& a : b) F(a);", "  } while (a);"):
            self.assertNotIn("removed statement", mutated(line), line)
        # The end of a statement that began above.
        self.assertNotIn("removed statement", mutated("  F(b);", "  {\n  x = a +\n"))

    def test_an_error_is_ignored(self):
        self.assertEqual(mutated("  MILLRACE_RETURN_IF_ERROR(Check(a));")["ignored error"],
                         ["(void)(Check(a));"])

    def test_neighbouring_arguments_change_places(self):
        self.assertEqual(mutated('  F(a, G(b, c), "d, e");')["swapped arguments"],
                         ['F(G(b, c), a, "d, e");', 'F(a, "d, e", G(b, c));',
                          'F(a, G(c, b), "d, e");'])
        for line in ("  F(a, a);", "  std::min(a, b);", "  Status F(int a, int b);", "  F(a);"):
            self.assertNotIn("swapped arguments", mutated(line), line)

    def test_words_with_an_opposite_change_into_it(self):
        self.assertEqual(mutated("  x = std::min(a, b);")["std::min to std::max"],
                         ["x = std::max(a, b);"])
        self.assertEqual(mutated("  x = a.front();")["front() to back()"], ["x = a.back();"])

    def test_templates_pointers_and_references_are_no_operators(self):
        for line in ("  std::vector<int>* a;", "  F(std::move(a)->b);", "  T&& a;", "  F(-x, *y);"):
            self.assertFalse([operator for operator in mutated(line) if " to " in operator], line)

    def test_comments_strings_assertions_and_logs_are_left_alone(self):
        for line in ("  // a < b", '  "a < b"', "  MILLRACE_CHECK(a < b);", "  CheckInvariants();", "  #include <a>",
                     "  spdlog::info(1, 2);", "  static_assert(1 < 2);", "  a.reserve(a + 1);"):
            self.assertEqual(mutated(line), {}, line)
        self.assertEqual(mutated("      b < 1);", "  MILLRACE_CHECK(a < 1 &&\n"), {})

    def test_a_mutation_changes_its_line_only(self):
        text = "void F() {\n  x = 1;\n  y = 2;\n}\n"
        for mutation in mutations.mutations_of("a.cc", text):
            lines = mutations.apply(text, mutation).split("\n")
            self.assertEqual([i + 1 for i, (a, b) in enumerate(zip(text.split("\n"), lines))
                              if a != b], [mutation.line])


class Draw(unittest.TestCase):
    TEXT = "void F() {\n" + "".join(f"  x{i} = a + {i};\n" for i in range(9)) + "}\n"

    def test_the_seed_decides(self):
        found = mutations.mutations_of("a.cc", self.TEXT)
        self.assertEqual(list(mutations.drawn(found, 1)), list(mutations.drawn(found, 1)))
        self.assertNotEqual(list(mutations.drawn(found, 1)), list(mutations.drawn(found, 2)))

    def test_every_line_has_its_turn_before_any_has_another(self):
        found = mutations.mutations_of("a.cc", self.TEXT)
        order = list(mutations.drawn(found, 3))
        self.assertEqual(sorted(order), sorted(found))
        self.assertEqual(len({mutation.line for mutation in order[:9]}), 9)


class EquivalentMutations(unittest.TestCase):
    TEXT = "# why\n\na.cc\n- x = 1;\n+ x = 2;\nnobody reads x\nanywhere\n"

    def test_they_are_found_by_their_text_wherever_it_stands(self):
        found = mutations.Equivalents(self.TEXT)
        mutation = mutations.Mutation("a.cc", 99, 1, "constant + 1", "    x = 1;", "    x = 2;")
        self.assertEqual(found.reason(mutation), "nobody reads x anywhere")
        self.assertIsNone(found.reason(mutation._replace(after="    x = 3;")))
        self.assertIsNone(found.reason(mutation._replace(path="b.cc")))

    def test_one_without_a_reason_is_refused(self):
        with self.assertRaises(ValueError):
            mutations.Equivalents("a.cc\n- x = 1;\n+ x = 2;\n")

    def test_one_whose_line_is_gone_is_reported(self):
        found = mutations.Equivalents(self.TEXT)
        self.assertEqual(found.stale({"a.cc": "  x = 1;\n"}), [])
        self.assertEqual(len(found.stale({"a.cc": "  x = 3;\n"})), 1)

    def test_those_of_this_tree_can_be_read(self):
        with open(os.path.join(ROOT, mutate.EQUIVALENT), encoding="utf-8") as file:
            mutations.Equivalents(file.read())


class Tree(unittest.TestCase):
    def setUp(self):
        self.root = self.enterContext(tempfile.TemporaryDirectory())
        for name in ("TREE", "RESULTS"):
            self.enterContext(mock.patch.object(mutate, name, os.path.join(self.root, name)))

    def enterContext(self, context):  # of unittest in Python 3.11, and in older ones
        value = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return value

    def declare(self, folder, text):
        write(mutate.TREE, f"tests/{folder}/CMakeLists.txt", text)

    def test_a_folder_is_tested_by_what_mirrors_it_but_for_brokers(self):
        self.declare("stores", "millrace_test(stores SOURCES a.cc LIBRARIES millrace::stores)")
        self.declare("kafka", "millrace_test(kafka SOURCES a.cc LABEL mock)\n"
                              "millrace_test(kafka_broker SOURCES a.cc\n  LABEL broker)")
        programs = mutate.test_programs()
        self.assertEqual(mutate.programs_of("stores", programs), ["test_stores"])
        self.assertEqual(mutate.programs_of("kafka", programs), ["test_kafka"])
        self.assertEqual(mutate.programs_of("stores/deeper", programs), ["test_stores"])
        with self.assertRaises(SystemExit):
            mutate.programs_of("models", programs)

    def test_the_end_to_end_tests_are_those_that_link_the_simulation(self):
        self.declare("driver", "millrace_test(driver SOURCES a.cc LIBRARIES millrace_simulation)")
        self.declare("simulation", "millrace_test(simulation SOURCES a.cc\n"
                                   "  LIBRARIES millrace_simulation LABEL simulation)")
        self.declare("stores", "millrace_test(stores SOURCES a.cc LIBRARIES millrace::stores)")
        self.assertEqual(mutate.end_to_end(mutate.test_programs()), ["test_driver"])

    def test_every_folder_of_the_architecture_that_has_tests_finds_them(self):
        with mock.patch.object(mutate, "TREE", mutate.ROOT):
            programs = mutate.test_programs()
            self.assertEqual(mutate.programs_of("stores", programs), ["test_stores"])
            self.assertTrue(mutate.end_to_end(programs))
            self.assertTrue(mutate.candidates(["stores"]))

    def test_a_survivor_is_tried_again_when_anything_has_changed(self):
        results = mutate.Results()
        for key, outcome in (("1", mutate.SURVIVED), ("2", mutate.KILLED)):
            results.add({"key": key, "tree": "old", "outcome": outcome, "detail": ""})
        with open(mutate.RESULTS, "a", encoding="utf-8") as file:
            file.write('{"key": "3", "outc')  # killed while it wrote
        known = mutate.Results()
        self.assertIsNotNone(known.find("1", "old"))
        self.assertIsNone(known.find("1", "new"))
        self.assertIsNotNone(known.find("2", "new"))
        self.assertIsNone(known.find("3", "old"))


class Running(unittest.TestCase):
    def setUp(self):
        root = tempfile.TemporaryDirectory()
        self.addCleanup(root.cleanup)
        patch = mock.patch.object(mutate, "LOG", os.path.join(root.name, "log"))
        patch.start()
        self.addCleanup(patch.stop)

    def test_a_program_that_hangs_is_ended_with_all_that_it_started(self):
        reader, writer = os.pipe()
        ended = mutate.run(["sh", "-c", "sleep 600 & wait"], limit=0.5, pass_fds=[writer])
        os.close(writer)
        self.assertEqual(os.read(reader, 1), b"")  # returns once nobody holds the other end
        os.close(reader)
        self.assertIsNone(ended.code)
        self.assertEqual(mutate.symptom(ended), "takes too long")

    def test_what_noticed_a_mutation_is_named(self):
        for script, expected in (
                ("echo '[  FAILED  ] Store.Keeps (1 ms)'; exit 1", "Store.Keeps"),
                ("echo 'seed 7: a row is lost'; exit 1", "seed 7: a row is lost"),
                ("echo '[ RUN      ] Store.Keeps'; kill -SEGV $$", "signal 11 in Store.Keeps"),
                ("exit 3", "exit code 3")):
            self.assertEqual(mutate.symptom(mutate.run(["sh", "-c", script])), expected)


class WholeRun(unittest.TestCase):
    """A campaign on a tree of one file, whose tests are replaced: they notice a removed call."""

    def setUp(self):
        root = tempfile.TemporaryDirectory()
        self.addCleanup(root.cleanup)
        for name in ("TREE", "RESULTS"):
            patch = mock.patch.object(mutate, name, os.path.join(root.name, name))
            patch.start()
            self.addCleanup(patch.stop)
        write(mutate.TREE, "stores/a.cc", "void F() {\n  G();\n  x = 1;\n  y = true;\n}\n")
        write(mutate.TREE, "tests/stores/CMakeLists.txt", "millrace_test(stores SOURCES a.cc)")
        write(mutate.TREE, mutate.EQUIVALENT, "stores/a.cc\n- x = 1;\n+ x = 2;\nit is 1 or more\n")
        self.tried = []

    def fate(self, mutation, folder, stages):
        self.assertEqual((folder, stages[0]), ("stores", ["test_stores"]))
        with open(os.path.join(mutate.TREE, mutation.path), encoding="utf-8") as file:
            self.assertIn(mutation.after, file.read())
        self.tried.append(mutation.operator)
        if mutation.operator == "true to false":
            return mutate.NOT_BUILT, "error: y"
        gone = mutation.operator == "removed statement" and "G()" in mutation.before
        return (mutate.KILLED, "test_stores: A.B") if gone else (mutate.SURVIVED, "")

    def campaign(self, *arguments):
        with mock.patch.object(mutate, "tracked_files", lambda: ["stores/a.cc"]), \
                mock.patch.object(mutate.Campaign, "prepare", lambda self: None), \
                mock.patch.object(mutate.Bench, "fate",
                                  lambda bench, *rest: self.fate(*rest)), \
                contextlib.redirect_stdout(io.StringIO()) as output:
            campaign = mutate.Campaign(mutate.parse([*arguments, "stores"]))
            campaign.run()
            return campaign.report(), output.getvalue()

    def test_survivors_are_listed_and_the_file_is_as_it_was(self):
        code, output = self.campaign()
        self.assertEqual(code, 1)
        self.assertIn("stores/a.cc:3: constant - 1\n    - x = 1;\n    + x = 0;", output)
        self.assertIn("1 killed, 3 survived, 1 recorded as equivalent; "
                      "1 that do not compile were drawn again", output)
        with open(os.path.join(mutate.TREE, "stores/a.cc"), encoding="utf-8") as file:
            self.assertIn("  G();\n  x = 1;\n  y = true;\n", file.read())

    def test_a_second_run_repeats_nothing(self):
        first = self.campaign()[1].split("Survivors:")[1]
        self.tried.clear()
        self.assertEqual(self.campaign()[1].split("Survivors:")[1], first)
        self.assertEqual(self.tried, [])
        with open(mutate.RESULTS, encoding="utf-8") as file:
            self.assertEqual(len([json.loads(line) for line in file]), 5)

    def test_what_does_not_compile_is_drawn_again(self):
        self.campaign("--count", "5")
        self.assertEqual(self.campaign("--count", "5")[1].count("survived  "), 3)


if __name__ == "__main__":
    unittest.main()
