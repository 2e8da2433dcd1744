#!/usr/bin/env python3
"""scripts/lint: which files it gives clang-tidy as one, and what it does not read again."""

import importlib.machinery
import importlib.util
import os
import pathlib
import stat
import subprocess
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
loader = importlib.machinery.SourceFileLoader("lint", str(ROOT / "scripts" / "lint"))
lint = importlib.util.module_from_spec(importlib.util.spec_from_loader("lint", loader))
loader.exec_module(lint)


def hides(text):
    return f"namespace millrace {{\nnamespace {{\n\n{text}\n\n}}  // namespace\n}}  // namespace millrace\n"


class Groups(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="millrace-scripts-")
        self.addCleanup(folder.cleanup)
        root = mock.patch.object(lint, "ROOT", folder.name)
        root.start()
        self.addCleanup(root.stop)
        self.addCleanup(self.forget)

    @staticmethod
    def forget():
        for each in lint.read, lint.visible_names:
            each.cache_clear()

    def groups(self, *texts, headers=()):
        """The numbers of the files that are read together."""
        self.forget()
        for name, text in headers:
            pathlib.Path(lint.ROOT, name).write_text(text)
        names = [f"{i}.cc" for i in range(len(texts))]
        for name, text in zip(names, texts):
            pathlib.Path(lint.ROOT, name).write_text(text)
        return [[names.index(name) for name in group] for group in lint.groups_of(names)]

    def test_files_that_hide_one_name_are_apart(self):
        for one, other in (("int Count() { return 1; }", "int Count(int x) { return x; }"),
                           ("enum class Kind { kA };", "struct Kind {\n  int kind;\n};"),
                           ("constexpr int kMost = 1;", "const int kMost = 2;")):
            self.assertEqual(self.groups(hides(one), hides("int Other();"), hides(other)), [[0, 1], [2]])

    def test_a_file_that_hides_a_name_of_anothers_header_is_apart_from_it(self):
        header = ("progress.h", "namespace millrace {\nstruct Progress {};\n}  // namespace millrace\n")
        uses = '#include "progress.h"\n'
        self.assertEqual(self.groups(hides("struct Progress;"), uses, hides("int x;"), headers=[header]),
                         [[0, 2], [1]])
        self.assertEqual(self.groups(uses, hides("struct Progress;"), headers=[header]), [[0], [1]])

    def test_what_may_be_said_twice_keeps_no_files_apart(self):
        for text in ("using std::chrono::seconds;", "static_assert(sizeof(int) == 4);",
                     "enum class Kind { kA };\nvoid Reader::Open() {\n}"):
            other = text.replace("Kind", "Other").replace("Reader", "Writer")
            self.assertEqual(self.groups(hides(text), hides(other)), [[0, 1]])

    def test_tests_are_kept_apart_by_nothing(self):
        test = hides("int Count();\nTEST(A, B) {}")
        self.assertEqual(self.groups(test, test), [[0, 1]])


class Passes(unittest.TestCase):
    """On a tree of one file and a program of its own in clang-tidy's place, which writes down that it ran."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="millrace-scripts-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.program = self.folder / "tidy"
        self.ran = self.folder / "ran"
        self.status = 0
        self.replace("PASSED", str(self.folder / "cache"))

    def replace(self, name, value):
        patch = mock.patch.object(lint, name, value)
        patch.start()
        self.addCleanup(patch.stop)

    def runs(self, clone, text):
        """Whether clang-tidy looks at this text in this clone; what is wrong with it."""
        root = self.folder / clone
        for name, content in (("a.cc", text), (".clang-tidy", ""), ("scripts/lint", ""),
                              ("scripts/lib/python.sh", ""), ("messages/a.proto", ""), ("build/lint/x", "")):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(content)
        self.program.write_text(f"#!/bin/sh\necho ran >>{self.ran}\necho wrong\nexit {self.status}\n")
        self.program.chmod(0o700)
        self.ran.write_text("")
        self.replace("ROOT", str(root))
        self.replace("WORK", str(root / "build" / "lint"))
        lint.read.cache_clear()
        self.addCleanup(lint.read.cache_clear)
        found = lint.tidy(str(self.program), ["a.cc"], {"a.cc": [f"-I{root}"]})
        return self.ran.read_text() != "", found

    def test_what_has_passed_is_not_read_again_also_not_in_another_clone(self):
        self.assertEqual(self.runs("one", "int a;"), (True, []))
        self.assertEqual(self.runs("one", "int a;"), (False, []))
        self.assertEqual(self.runs("other", "int a;"), (False, []))
        self.assertEqual(self.runs("other", "int b;"), (True, []))

    def test_what_has_not_passed_is_read_again(self):
        self.status = 1
        for _ in range(2):
            self.assertEqual(self.runs("one", "int a;"), (True, ["wrong"]))

    def test_what_was_not_used_for_long_is_forgotten(self):
        self.runs("one", "int a;")
        lint.forget_old()
        self.assertEqual(self.runs("one", "int a;"), (False, []))
        for entry in (self.folder / "cache").iterdir():
            os.utime(entry, (0, 0))
        lint.forget_old()
        self.assertEqual(self.runs("one", "int a;"), (True, []))

    def test_a_cache_that_cannot_be_written_costs_only_time(self):
        (self.folder / "cache").write_text("no folder")
        for _ in range(2):
            self.assertEqual(self.runs("one", "int a;"), (True, []))


class ClangTidy(unittest.TestCase):
    def test_is_debians_where_that_of_pypi_cannot_be_had(self):
        with tempfile.TemporaryDirectory(prefix="millrace-scripts-") as folder:
            bash = pathlib.Path(folder, "bash")
            bash.write_text("#!/bin/sh\nexit 1\n")
            bash.chmod(bash.stat().st_mode | stat.S_IXUSR)
            program = "import importlib.machinery as m, sys\n" \
                      "lint = m.SourceFileLoader('lint', sys.argv[1]).load_module()\n" \
                      "print(lint.clang_tidy())"
            done = subprocess.run(["/usr/bin/python3", "-W", "ignore", "-c", program, ROOT / "scripts" / "lint"],
                                  env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}, text=True,
                                  capture_output=True, check=True)
        self.assertEqual(done.stdout, "clang-tidy-16\n")
        self.assertIn("without the clang-tidy of PyPI Debian's looks", done.stderr)


if __name__ == "__main__":
    unittest.main()
