#!/usr/bin/env python3
"""scripts/demo, with stand-ins for Kafka and for the programs: what it checks first, how MasterApp is
called, and that nothing is left running; and the commands of README's tour that kill a process."""

import gzip
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

KAFKA = """\
#!/usr/bin/env bash
for word; do case $word in start) touch "$ROOT/kafka-started" ;; bootstrap) echo 127.0.0.1:1 ;; esac; done
"""
PRODUCER = """\
#!/usr/bin/env bash
echo "$*" >"$ROOT/described"; echo 'name: "x"'
"""
# As MasterApp does, it runs until the job has ended, or has failed.
MASTER = """\
#!/usr/bin/env bash
trap 'echo stopped >"$ROOT/master-end"; exit 130' TERM
echo "$*" >"$ROOT/master-words"
mkdir -p "$ROOT/build/demo/run/logs"
echo 'two classes have fewer than 0.5 % of the rows' >"$ROOT/build/demo/run/logs/producer-0.log"
until [[ -f $ROOT/ended && $* != *--stay* ]]; do sleep 0.02; done
"""
FAILED_MASTER = """\
#!/usr/bin/env bash
echo "what nobody needs to read"
echo "the end of /run/logs/server-0.log:"
echo "no broker answered"
echo "MasterApp: the job has failed: server-0 has failed for good: exit code 1"
exit 1
"""
# One that was killed, and has left a process; its shim is known by how it was called.
KILLED_MASTER = """\
#!/usr/bin/env bash
folder=$ROOT/build/demo/run/processes/worker-0
mkdir -p "$folder"; : >"$folder/1"
(exec -a "$ROOT/ProcessShim" tail "$folder/1" -f) &
echo $! >"$ROOT/shim"
kill -KILL $$
"""
WATCH = """\
#!/usr/bin/env bash
sleep 0.2
touch "$ROOT/ended"
"""
PATIENT_WATCH = """\
#!/usr/bin/env bash
trap 'exit 0' TERM
while :; do sleep 0.02; done
"""

class OnStandIns(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="millrace-scripts-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        shutil.copytree(ROOT / "scripts" / "lib", self.root / "scripts" / "lib")
        shutil.copy(ROOT / "scripts" / "demo", self.root / "scripts" / "demo")
        self.stub("scripts/kafka", KAFKA)
        self.stub("scripts/setup", '#!/bin/sh\ntouch "$ROOT/set-up"\n')
        self.stub("bin/cmake", "#!/bin/sh\n")
        (self.root / "build/release").mkdir(parents=True)
        (self.root / "build/release/build.ninja").touch()
        for name, text in ("CsvProducer", PRODUCER), ("MasterApp", MASTER), ("Watch", WATCH):
            self.stub(f"build/release/apps/{name}", text)
        self.data = self.root / "rows.csv"
        self.data.write_text('\ufeffx, city,"a ""b""",y\n1,2,3,no\n2,3,4,yes\n', encoding="utf-8")

    def stub(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def started(self, *words):
        environment = {**os.environ, "ROOT": str(self.root),
                       "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}"}
        return subprocess.Popen([self.root / "scripts" / "demo", *map(str, words)], env=environment, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def demo(self, *words):
        process = self.started(*words)
        out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def master_words(self):
        return (self.root / "master-words").read_text()


class Demo(OnStandIns):
    def file(self, *words):
        return self.demo("--data", self.data, "--label", "y", "--numeric", "x", "--no-picture", *words)

    def test_a_column_that_the_file_has_not_is_wrong_usage_before_anything_starts(self):
        for words, flag, name in ((["--label", "Y"], "--label", "Y"), (["--numeric", "x,z"], "--numeric", "z"),
                                  (["--categorical", "city,x*town"], "--categorical", "town"),
                                  (["--bins", "x:8,all:4,z:8"], "--bins", "z"),
                                  (["--ids", "user"], "--ids", "user"), (["--text", "t"], "--text", "t")):
            done = self.file(*words)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"{flag}: {self.data} has no column '{name}'; its columns are: x, city, a \"b\", y",
                          done.stderr)
        test = self.root / "test.csv"
        test.write_text("z;y\n1;no\n")
        done = self.file("--test", test)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("test.csv has no column 'x'; its columns are: z, y", done.stderr)
        self.assertFalse((self.root / "set-up").exists())

    def test_a_file_and_its_label_are_enough(self):
        done = self.demo("--data", self.data, "--label", "y", "--no-picture")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.root / "described").read_text().split(), ["--describe", str(self.data), "--label", "y"])
        self.assertEqual((self.root / "build/demo/job.textproto").read_text(), 'name: "x"\n')
        self.assertIn(f"--config {self.root}/build/demo/job.textproto ", self.master_words())

    def test_a_job_file_may_say_what_the_columns_are(self):
        job = self.root / "build/demo/job.textproto"  # as it was proposed, and changed
        job.parent.mkdir(parents=True, exist_ok=True)
        job.write_text('features { numeric: "x" }\n')
        done = self.demo("--data", self.data, "--label", "y", "--config", job, "--no-picture")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse((self.root / "described").exists())
        self.assertIn(f"--config {job} ", self.master_words())
        self.assertEqual(job.read_text(), 'features { numeric: "x" }\n')
        done = self.demo("--data", self.data, "--label", "y", "--config", job.with_name("none"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("--config: there is no file", done.stderr)

    def test_other_separators_and_names_in_quotes_are_no_reason_to_stop(self):
        self.data.write_text('x;city;"a,b";y\n1;2;3;no\n2;3;4;yes\n')
        done = self.file("--numeric", 'x,"a,b"', "--text", "city,x")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('--numeric x,"a,b" ', self.master_words())

    def test_rows_of_compressed_files_are_counted_as_records(self):
        text = 'x;note;y\r\n' + '1;"a\r\nb";no\r\n\r\n' * 40
        for suffix, packed in ((".gz", gzip.compress(text.encode("latin1"))),
                               (".zst", subprocess.run(["zstd", "-c"], input=text.encode(), check=True,
                                                       capture_output=True).stdout)):  # fmt: skip
            data = self.root / f"rows.csv{suffix}"
            data.write_bytes(packed)
            done = self.demo("--data", data, "--label", "y", "--no-picture", "--freeze-after", "0.5")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("--freeze-after 20 ", self.master_words())
            done = self.demo("--data", data, "--label", "y", "--no-picture", "--numeric", "z")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"--numeric: {data} has no column 'z'; its columns are: x, note, y", done.stderr)
            (self.root / "ended").unlink()
        (self.root / "rows.csv.gz").write_bytes(gzip.compress(text.encode())[:-5])
        done = self.demo("--data", self.root / "rows.csv.gz", "--label", "y", "--no-picture", "--freeze-after", "0.5")
        self.assertEqual(done.returncode, 1)
        self.assertIn("the rows of", done.stderr)
        self.assertIn("rows.csv.gz cannot be counted", done.stderr)

    def test_a_broker_that_does_not_answer_is_an_error_at_once(self):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            nobody = f"127.0.0.1:{listener.getsockname()[1]}"
            for brokers in (nobody, f"SSL://{nobody}", f"{nobody},{nobody}"):
                done = self.file("--brokers", brokers)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(f"no Kafka broker answers at {brokers} (--brokers)", done.stderr)
        self.assertFalse((self.root / "set-up").exists())

    def test_the_programs_do_not_wait_for_ever_for_a_broker_that_is_gone(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            there = f"127.0.0.1:{listener.getsockname()[1]}"
            done = self.file("--brokers", f"127.0.0.1:1,PLAINTEXT://{there}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("--broker-timeout 30", self.master_words())
        self.assertFalse((self.root / "kafka-started").exists())

    def test_one_master_runs_the_whole_job(self):
        done = self.file("--categorical", "city*x", "--rate", "7", "--servers", "2", "--", "--batch-rows", "9")
        self.assertEqual(done.returncode, 0, done.stderr)
        for words in ("--label y ", "--numeric x ", "--categorical city*x ", f"--input {self.data} ", "--rate 7 ",
                      "--shards 2 ", f"--run-dir {self.root}/build/demo/run ", "--session-timeout 2 ",
                      f"--worker-evaluation-log {self.root}/build/demo/worker-{{rank}}.csv "):
            self.assertIn(words, self.master_words())
        self.assertTrue(self.master_words().endswith(" --batch-rows 9\n"), "what the user gives wins")
        self.assertNotIn("--stay", self.master_words())
        self.assertIn("fewer than 0.5 %", done.stderr)

    def test_what_is_kept_stays_until_it_is_stopped(self):
        self.addCleanup(self.demo, "--stop")
        done = self.file("--keep")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("MasterApp status", done.stdout)
        self.assertFalse((self.root / "master-end").exists())
        done = self.file()
        self.assertEqual(done.returncode, 1)
        self.assertIn("the last demo still runs: scripts/demo --stop ends it", done.stderr)
        done = self.demo("--stop")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.root / "master-end").exists())

    def test_ctrl_c_stops_the_master_in_an_orderly_way(self):
        self.stub("build/release/apps/Watch", PATIENT_WATCH)
        process = self.started("--data", self.data, "--label", "y", "--numeric", "x", "--no-picture")
        while not (self.root / "master-words").exists():
            self.assertIsNone(process.poll())
            time.sleep(0.02)
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, err)
        self.assertEqual((self.root / "master-end").read_text(), "stopped\n")
        self.assertNotIn("does not stop", err)

    def test_what_a_killed_master_has_left_is_stopped(self):
        self.stub("build/release/apps/MasterApp", KILLED_MASTER)
        self.stub("build/release/apps/Watch", PATIENT_WATCH)
        done = self.file()
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("MasterApp failed (exit status 137)", done.stderr)
        shim = int((self.root / "shim").read_text())
        self.assertFalse(pathlib.Path(f"/proc/{shim}/cmdline").exists() and
                         pathlib.Path(f"/proc/{shim}/cmdline").read_bytes())

    def test_a_network_is_trained_on_any_columns_in_one_pass_and_on_the_buffer(self):
        for schedule in "one-pass", "buffer":
            done = self.file("--text", 'a "b"', "--model", "network", "--schedule", schedule)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"--model network --schedule {schedule} ", self.master_words())
            self.assertNotIn("--learning-rate", self.master_words())
            (self.root / "ended").unlink()

    def test_a_model_that_there_is_not_is_wrong_usage(self):
        done = self.file("--model", "net")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--model: softmax, network, fm or deepfm, not 'net'", done.stderr)
        self.assertFalse((self.root / "set-up").exists())

    def test_a_program_that_fails_ends_the_demo_in_the_master_s_words(self):
        self.stub("build/release/apps/MasterApp", FAILED_MASTER)
        self.stub("build/release/apps/Watch", PATIENT_WATCH)
        done = self.file()
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("MasterApp failed (exit status 1)", done.stderr)
        self.assertIn("no broker answered\nMasterApp: the job has failed: server-0", done.stderr)
        self.assertNotIn("nobody needs", done.stderr)


class Tour(unittest.TestCase):
    """The commands of README that kill a process, on stand-ins; nothing is killed: pgrep says whom
    they mean."""

    def test_what_kills_a_process_of_the_tour_means_no_other_job(self):
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        job = f"tour-{os.getpid()}"
        text = text.replace("--job tour", f"--job {job}")
        commands = {}
        for match in re.finditer(rf"^    ((ServerApp|WorkerApp|CsvProducer) --job {job} (?:.*\\\n)*.*)$", text, re.M):
            commands.setdefault(match.group(2), []).append(shlex.split(match.group(1).replace("\\\n", " ")))
        self.assertEqual({name: len(found) for name, found in commands.items()},
                         {"ServerApp": 1, "WorkerApp": 2, "CsvProducer": 1})
        kills = re.findall(r"^    pkill -9 (-f .*)$", text, re.M)
        self.assertEqual(len(kills), 3)
        with tempfile.TemporaryDirectory() as folder:
            started = []
            try:
                for name, found in commands.items():
                    path = pathlib.Path(folder) / name
                    path.write_text("#!/bin/sh\nread -r _\n")
                    path.chmod(0o755)
                    for words in found:
                        for other in (job, job + "2"):
                            words = [other if word == job else word for word in words]
                            started.append((other, name, subprocess.Popen([path, *words[1:]], stdin=subprocess.PIPE)))
                time.sleep(0.3)
                for name, pattern in zip(("ServerApp", "WorkerApp", "CsvProducer"), kills):
                    done = subprocess.run(["pgrep", *shlex.split(pattern)], text=True, stdout=subprocess.PIPE, check=False)
                    meant = [process.pid for other, program, process in started
                             if other == job and program == name]
                    self.assertEqual([int(pid) for pid in done.stdout.split()], meant[:1], pattern)
            finally:
                for _, _, process in started:
                    process.stdin.close()
                    process.wait()


if __name__ == "__main__":
    unittest.main()
