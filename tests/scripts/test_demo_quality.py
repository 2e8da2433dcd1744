#!/usr/bin/env python3
"""How good the model of scripts/demo is on the flights, if their data is there: scripts/demo is run with
stand-ins for Kafka and for the programs, and what it gives MasterApp is learnt by learn_csv, which learns what
a sequential job does. So the figures are those of the demo, to the last digit, and the same at every run.

MILLRACE_LEARN_CSV is the program, and MILLRACE_FLIGHTS the folder of flights-stream.csv, as
`datasets/flights.py --holdout-every 20` writes it.
"""

import json
import os
import pathlib
import shlex
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import test_demo  # noqa: E402

LEARN_CSV = os.environ.get("MILLRACE_LEARN_CSV")
FLIGHTS = pathlib.Path(os.environ.get("MILLRACE_FLIGHTS", test_demo.ROOT / "build" / "data"))
# Of what MasterApp is given, what decides what is learnt.
LEARNT_BY = {"--label", "--classes", "--numeric", "--categorical", "--categorical-buckets", "--ids", "--epochs",
             "--input", "--model", "--schedule", "--consistency", "--tail-after", "--workers"}
MASTER = """\
#!/usr/bin/env bash
printf '%q ' "$@" >"$ROOT/master-words"
touch "$ROOT/ended"
"""


@unittest.skipUnless(LEARN_CSV and (FLIGHTS / "flights-stream.csv").exists(),
                     "MILLRACE_LEARN_CSV names the program, and datasets/flights.py writes the flights")
class Flights(test_demo.OnStandIns):
    def setUp(self):
        super().setUp()
        self.stub("build/release/apps/MasterApp", MASTER)
        self.stub("scripts/lib/python.sh", f"python_with() {{ python={sys.executable}; }}\n")
        data = self.root / "build" / "data"
        data.mkdir(parents=True)
        for name in "stream", "heldout":
            (data / f"flights-{name}.csv").symlink_to(FLIGHTS / f"flights-{name}.csv")
        (self.root / "datasets").mkdir()
        (self.root / "datasets" / "flights.py").symlink_to("/nowhere")  # older than all of them

    def last_fifth(self, *words):
        done = self.demo("--no-picture", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        given = shlex.split(self.master_words())
        settings = [word for flag, value in zip(given, given[1:]) if flag in LEARNT_BY for word in (flag, value)]
        self.assertLessEqual({"--tail-after", "--numeric", "--workers", "--input"}, set(settings))
        done = subprocess.run([LEARN_CSV, *settings], text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["last_fifth"]

    def test_four_workers_rank_the_last_fifth(self):
        self.assertGreaterEqual(self.last_fifth()["auc"], .765)

    def test_one_worker_ranks_it_a_little_better(self):
        self.assertGreaterEqual(self.last_fifth("--workers", "1")["auc"], .77)

    def test_so_do_four_workers_that_know_each_flight_number_and_aircraft(self):
        for ids in "flight", "tailnum,flight":
            self.assertGreaterEqual(self.last_fifth("--ids", ids)["auc"], .775)


if __name__ == "__main__":
    unittest.main()
