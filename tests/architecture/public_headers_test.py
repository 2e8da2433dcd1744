#!/usr/bin/env python3
"""Compiles the headers of the library for others' programs (include/millrace/) with nothing of ours beside
them: each alone, all warnings being errors, without a header of a library that it is made of."""

import os
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
INCLUDE = os.path.join(ROOT, "include")
FOREIGN = ("/absl/", "/google/", "/grpcpp/", "/librdkafka/", "/spdlog/", "/rocksdb/", "/Eigen/")
COMPILER = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")


def compile_alone(header, include=INCLUDE):
    """The files that the header includes. CalledProcessError: it does not compile."""
    with tempfile.TemporaryDirectory() as folder:
        language, standard = ("c", "c11") if header.endswith("millrace.h") else ("c++", "c++20")
        source = os.path.join(folder, "source")
        with open(source, "w", encoding="utf-8") as file:
            file.write(f'#include "millrace/{header}"\n#include "millrace/{header}"\n')
        done = subprocess.run(
            [COMPILER, "-x", language, f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic",
             "-Wconversion", "-Werror", "-fsyntax-only", "-H", "-I", include, source],
            check=True, capture_output=True, text=True)
    return [line.lstrip(". ") for line in done.stderr.split("\n") if line.startswith(".")]


def foreign(files):
    return [file for file in files if any(name in file for name in FOREIGN)]


class PublicHeaders(unittest.TestCase):
    def test_each_compiles_alone_without_foreign_headers(self):
        headers = sorted(os.listdir(os.path.join(INCLUDE, "millrace")))
        self.assertIn("parameter_manager.h", headers)
        for header in headers:
            with self.subTest(header=header):
                files = compile_alone(header)
                self.assertIn(os.path.join(INCLUDE, "millrace", header), files)
                self.assertEqual(foreign(files), [])


class TheTestItself(unittest.TestCase):
    def compile(self, text):
        with tempfile.TemporaryDirectory() as include:
            os.mkdir(os.path.join(include, "millrace"))
            with open(os.path.join(include, "millrace", "planted.h"), "w", encoding="utf-8") as file:
                file.write("#pragma once\n" + text)
            return compile_alone("planted.h", include)

    def test_sees_foreign_headers(self):
        self.assertTrue(foreign(self.compile("#include <absl/base/config.h>\n")))
        self.assertFalse(foreign(self.compile("#include <string>\n")))

    def test_sees_a_header_that_does_not_compile_alone(self):
        with self.assertRaises(subprocess.CalledProcessError):
            self.compile("inline std::string Text() { return {}; }\n")
        with self.assertRaises(subprocess.CalledProcessError):
            self.compile("inline int Narrowed(double value) { return value; }\n")


if __name__ == "__main__":
    unittest.main()
