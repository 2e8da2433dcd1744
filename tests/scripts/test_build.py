#!/usr/bin/env python3
"""What a build shows, by a stand-in for cmake that says what Ninja says."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Build(unittest.TestCase):
    def build(self, ninja):
        with tempfile.TemporaryDirectory(prefix="millrace-scripts-") as folder:
            root = pathlib.Path(folder)
            shutil.copytree(ROOT / "scripts" / "lib", root / "scripts" / "lib")
            (root / "build" / "release").mkdir(parents=True)
            (root / "build" / "release" / "build.ninja").touch()
            (root / "bin").mkdir()
            (root / "bin" / "cmake").write_text("#!/bin/bash\n" + ninja)
            (root / "bin" / "cmake").chmod(0o755)
            script = ('set -euo pipefail; . scripts/lib/common.sh; . scripts/lib/build.sh; '
                      'build release all; echo built')
            done = subprocess.run(["bash", "-c", script, "demo"], cwd=root, text=True, check=False,
                                  capture_output=True,
                                  env={**os.environ, "PATH": f"{root / 'bin'}:{os.environ['PATH']}"})
            return done, (root / "build" / "release" / "build.log").read_text()

    NINJA = 'for i in {1..80}; do echo "[$i/80] Building CXX object x$i.o"; done\n'

    def test_a_build_is_a_few_lines_and_its_output_is_in_a_file(self):
        done, log = self.build(self.NINJA + 'echo "a.cc:1:2: warning: unused" >&2\n')
        self.assertEqual((done.returncode, done.stdout), (0, "built\n"), done.stderr)
        self.assertEqual(done.stderr.splitlines(),
                         [f"demo: building: {p} %, {f} of 80 files"
                          for p, f in ((25, 20), (50, 40), (75, 60), (100, 80))])
        self.assertIn("[37/80] Building CXX object x37.o", log)
        self.assertIn("warning: unused", log)

    def test_a_build_that_fails_shows_its_errors(self):
        done, log = self.build(self.NINJA + 'echo "a.cc:1:2: error: no such thing"; exit 1\n')
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("a.cc:1:2: error: no such thing", done.stderr)
        self.assertIn("build/release/build.log", done.stderr)
        self.assertNotIn("x37.o", done.stderr)
        self.assertIn("x37.o", log)


if __name__ == "__main__":
    unittest.main()
