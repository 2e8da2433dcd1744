#!/usr/bin/env python3
"""What scripts/demo has configured, without tests and benchmarks, scripts/test can go on with; and a
warning is an error in every preset."""

import json
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*command):
    done = subprocess.run([str(word) for word in command], cwd=ROOT, text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
    if done.returncode != 0:
        raise AssertionError(f"{command} failed\n{done.stdout}")
    return done.stdout


class PresetsTest(unittest.TestCase):
    def test_a_folder_without_tests_and_benchmarks_gets_them_from_the_preset(self):
        with tempfile.TemporaryDirectory(prefix="millrace-presets-") as folder:
            run("cmake", "--preset", "release", "-B", folder, "-DMILLRACE_BUILD_TESTS=OFF",
                "-DMILLRACE_BUILD_BENCHMARKS=OFF")  # fmt: skip
            self.assertIn("Total Tests: 0", run("ctest", "--test-dir", folder, "-N"))
            run("cmake", "--preset", "release", "-B", folder)
            self.assertNotIn("Total Tests: 0", run("ctest", "--test-dir", folder, "-N"))
            self.assertTrue((pathlib.Path(folder) / "benchmarks" / "CMakeFiles").is_dir())

    def test_a_warning_is_an_error_in_every_preset(self):
        presets = json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
        for preset in (p["name"] for p in presets if not p.get("hidden")):
            with self.subTest(preset), tempfile.TemporaryDirectory(prefix="millrace-") as folder:
                run("cmake", "--preset", preset, "-B", folder, "-DMILLRACE_BUILD_TESTS=OFF",
                    "-DMILLRACE_BUILD_BENCHMARKS=OFF")  # fmt: skip
                commands = json.loads((pathlib.Path(folder) / "compile_commands.json").read_text())
                ours = [c["command"] for c in commands if folder not in c["file"]]
                self.assertTrue(ours)
                self.assertEqual([c for c in ours if "-Werror " not in c], [])


if __name__ == "__main__":
    unittest.main()
