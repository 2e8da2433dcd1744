#!/usr/bin/env python3
"""The type hints of the package: they are consistent, and _native.pyi says of the module what it is.

Usage: types_test.py    (scripts/test oracle does it)

Needs the installed package, mypy, nanobind, NumPy and scikit-learn. Its name is not that of a unit test, since
these are not there for every Python on which the package is tested.
"""

import ast
import pathlib
import subprocess
import sys
import tempfile
import unittest

from nanobind.stubgen import StubGen

from millrace import _native

PYTHON = pathlib.Path(__file__).resolve().parents[1]
BUILD = PYTHON.parent / "build"
CONFIG = PYTHON / "pyproject.toml"  # whose cache is in build/mypy, too
FUNCTIONS = "FunctionsOfTheModule"  # the class that has them where stubs are compared


def run(tool, *arguments):
    """What a tool complains of, or nothing."""
    done = subprocess.run([sys.executable, "-m", tool, *map(str, arguments)], cwd=PYTHON.parent, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)  # fmt: skip
    return done.stdout or f"{tool} ended with {done.returncode}" if done.returncode else ""


def mypy(*arguments):
    return run("mypy", "--config-file", CONFIG, *arguments)


def as_classes(stub):
    """The stub, parsed, with the functions of the module as static ones of a class, of which another can be a
    subclass."""
    tree = ast.parse(stub)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    for function in functions:
        function.decorator_list.append(ast.Name("staticmethod"))
    tree.body = [node for node in tree.body if node not in functions]
    tree.body.append(ast.ClassDef(FUNCTIONS, [], [], functions, []))
    return ast.fix_missing_locations(tree)


def classes_of(tree):
    return [node for node in tree.body if isinstance(node, ast.ClassDef)]


def names_of(tree):
    return sorted(f"{each.name}.{function.name}" for each in classes_of(tree) for function in each.body
                  if isinstance(function, ast.FunctionDef))  # fmt: skip


def make_subclasses(tree, module):
    """Each class one of the class of that name in the module; one without functions, which others take, that class
    itself. What is returned as an `object` may be of any type, which is not known."""
    for i, each in enumerate(tree.body):
        if not isinstance(each, ast.ClassDef):
            continue
        other = ast.Attribute(ast.Name(module), each.name)
        functions = [function for function in each.body if isinstance(function, ast.FunctionDef)]
        if not functions:
            tree.body[i] = ast.Assign([ast.Name(each.name)], other)
        each.bases = [other]
        for function in functions:
            if ast.unparse(function.returns) == "object":
                function.returns = ast.Attribute(ast.Name("typing"), "Any")
    tree.body[:0] = [ast.Import([ast.alias(module)]), ast.Import([ast.alias("typing")])]
    ast.fix_missing_locations(tree)


class Types(unittest.TestCase):
    maxDiff = None

    def test_the_package_and_its_example_keep_to_their_hints(self):
        self.assertEqual(mypy(PYTHON / "millrace", PYTHON / "examples"), "")

    def test_a_caller_who_mistypes_a_name_or_a_type_is_told(self):
        right = ("millrace.OnlineClassifier(first_rows=3)", "millrace.Model.load('m').columns",
                 "millrace.send([], 'topic')", "millrace.Job('j', columns={}, topic='t').wait(1.5)",
                 "millrace.ParameterManager('j').register('w', (2, 3)).data.shape")  # fmt: skip
        wrong = ("millrace.OnlineLearner()", "millrace.OnlineClassifier(first_rows='3')",
                 "millrace.OnlineRegressor().learn()", "millrace.Model.load(3)", "millrace.send([], 3)",
                 "millrace.Job('j', columns={}, topic='t').wait('1.5')",
                 "millrace.ParameterManager('j').register(3)")  # fmt: skip
        self.assertEqual(mypy("-c", "\n".join(["import millrace", *right])), "")
        said = mypy("-c", "\n".join(["import millrace", *wrong]))
        lines = [line.split(":")[1] for line in said.splitlines() if ": error: " in line]
        self.assertEqual(lines, [str(2 + i) for i in range(len(wrong))], said)

    def test_the_stub_has_the_names_that_the_module_has(self):
        allowed = PYTHON / "tests" / "stubtest_allowlist.txt"
        said = run("mypy.stubtest", "--mypy-config-file", CONFIG, "--allowlist", allowed, "millrace._native")
        self.assertEqual(said, "")

    def test_functions_of_the_module_take_and_return_what_the_stub_says(self):
        generator = StubGen(_native)
        generator.put(_native)
        found = as_classes(generator.get())
        said = as_classes((PYTHON / "millrace" / "_native.pyi").read_text(encoding="utf-8"))
        self.assertEqual(names_of(found), names_of(said))
        # A function may stand in a subclass if it takes all that the other takes, and returns nothing else.
        make_subclasses(found, "said")
        with tempfile.TemporaryDirectory() as folder:
            for name, tree in (("said", said), ("found", found)):
                pathlib.Path(folder, f"{name}.pyi").write_text(ast.unparse(tree), encoding="utf-8")
            stubs = sorted(pathlib.Path(folder).glob("*.pyi"))
            self.assertEqual(run("mypy", "--config-file=", "--cache-dir", BUILD / "mypy", *stubs), "")


if __name__ == "__main__":
    unittest.main()
