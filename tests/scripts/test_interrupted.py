#!/usr/bin/env python3
"""scripts/test when a build fails or somebody interrupts it, with stand-ins for builds and for Kafka."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# A broker is a process in a session of its own, known by a file with its pid, as a real one is.
KAFKA = """\
#!/usr/bin/env bash
set -euo pipefail
while (($#)); do
  case $1 in --dir) dir=$2; shift ;; start | stop | kill | clean | bootstrap) command=$1 ;; esac
  shift
done
case ${command-} in
  start)
    mkdir -p "$dir"
    setsid sleep 600 </dev/null >/dev/null 2>&1 &
    echo $! >"$dir/pid"
    echo 127.0.0.1:1 >"$dir/bootstrap"
    cat "$dir/pid" >>"$KAFKA_PIDS" ;;
  bootstrap) cat "$dir/bootstrap" ;;
  stop | kill | clean) [[ ! -f $dir/pid ]] || kill "$(cat "$dir/pid")"; rm -f "$dir/pid" ;;
esac
"""


def alive(pid):
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] != "Z"


def wait_until(true, what, seconds=30):
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise AssertionError(f"in {seconds} s not: {what}")
        time.sleep(0.02)


class Interrupted(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="millrace-scripts-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.pids = self.root / "pids"
        self.pids.touch()
        for name in ("lib", "test"):
            source = ROOT / "scripts" / name
            (shutil.copytree if source.is_dir() else shutil.copy)(
                source, self.root / "scripts" / name)
            if name == "lib":
                self.stub("scripts/kafka", KAFKA)
                self.stub("scripts/setup", "#!/bin/sh\n")
                self.stub("scripts/lib/python.sh", "python=/usr/bin/python3\npython_with() { :; }\n")
        # The build is done at once; the tests on a broker take their time.
        for program in (ROOT / "tests" / "end_to_end").glob("test_*.py"):
            self.stub(f"tests/end_to_end/{program.name}", "class AnyOfThem:\n    def test_it(self):\n        pass\n")
        self.stub("bin/cmake", "#!/bin/sh\n")
        self.stub("bin/ctest", "#!/bin/sh\ntouch \"$KAFKA_PIDS.testing\"\nsleep 300\n")
        self.environment = {**os.environ, "KAFKA_PIDS": str(self.pids),
                            "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}"}
        self.addCleanup(self.end_brokers)

    def stub(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def brokers(self):
        return [int(pid) for pid in self.pids.read_text().split()]

    def end_brokers(self):
        for pid in filter(alive, self.brokers()):
            os.kill(pid, signal.SIGKILL)

    def test_a_stage_whose_build_fails_has_failed_whatever_its_tests_say(self):
        self.stub("bin/cmake", "#!/bin/sh\n[ \"$1\" != --build ]\n")
        self.stub("bin/ctest", "#!/bin/sh\n")
        for stage in ("release", "sanitize"):
            with self.subTest(stage):
                done = subprocess.run([self.root / "scripts" / "test", stage], check=False,
                                      env=self.environment, text=True, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(f"test: stage {stage} failed", done.stdout)

    def test_a_test_run_that_is_ended_leaves_no_broker(self):
        for sig, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
            with self.subTest(sig):
                (self.root / "pids.testing").unlink(missing_ok=True)
                with subprocess.Popen([self.root / "scripts" / "test", "broker"],
                                      env=self.environment, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL, start_new_session=True) as run:
                    wait_until((self.root / "pids.testing").exists, "the tests on a broker run")
                    self.assertTrue(all(map(alive, self.brokers()[-1:])))
                    run.send_signal(sig)
                    self.assertEqual(run.wait(timeout=30), code)
                self.assertEqual([pid for pid in self.brokers() if alive(pid)], [])

    def test_programs_of_tests_on_a_broker_leave_their_end_to_topology(self):
        for program in (ROOT / "tests" / "end_to_end").glob("*test*.py"):
            self.assertIn("\n    topology.main()\n", program.read_text(encoding="utf-8"), program)

    def test_topologies_that_are_ended_leave_neither_broker_nor_program(self):
        program = textwrap.dedent(f"""
            import pathlib, subprocess, sys, time, unittest
            sys.path.insert(0, {str(ROOT / "tests" / "end_to_end")!r})
            import topology
            topology.ROOT = pathlib.Path({str(self.root)!r})

            class Case(unittest.TestCase):
                @classmethod
                def setUpClass(cls):
                    cls.folder = topology.temporary_folder()
                    cls.broker = topology.Broker(pathlib.Path(cls.folder.name) / "kafka").start()
                    cls.addClassCleanup(cls.broker.stop)

                def test(self):
                    job = topology.Job(self.broker, "j", self.folder.name, data="none.csv")
                    job.commands = {{"program": ["sh", "-c", "echo $$ >>$KAFKA_PIDS; exec sleep 600"]}}
                    job.start()
                    pathlib.Path({str(self.root)!r}, "pids.testing").touch()
                    time.sleep(300)

            topology.main()
        """)
        for sig in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(sig):
                (self.root / "pids.testing").unlink(missing_ok=True)
                with subprocess.Popen([sys.executable, "-c", program], env=self.environment,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
                    wait_until((self.root / "pids.testing").exists, "a test runs")
                    wait_until(lambda: len(self.brokers()) % 2 == 0, "its program runs")
                    run.send_signal(sig)
                    run.wait(timeout=30)
                self.assertEqual([pid for pid in self.brokers() if alive(pid)], [])


if __name__ == "__main__":
    unittest.main()
