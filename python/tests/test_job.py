"""millrace.Job on stand-ins of the programs, and millrace.send without a broker; the real ones are in
tests/end_to_end/test_python.py."""

import decimal
import json
import math
import os
import pathlib
import signal
import tempfile
import time
import unittest
import warnings
from unittest import mock

import numpy
import pandas

import millrace
from millrace import topic

PROGRAMS = ("ServerApp", "WorkerApp", "CsvProducer", "TopicSource", "Watch")
STATE = {"job": "shops", "ended": False, "rows_trained": 7,
         "progressive": {"rows": 7, "log_loss": 0.5, "classes": [1, 2]}, "window": {"rows": 5, "log_loss": 0.25}}


class JobTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="millrace-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.programs = self.folder / "programs"
        self.programs.mkdir()
        for program in PROGRAMS:
            self.program(program, "echo \"$0 $*\"; exec sleep 60")
        self.program("Watch", f"echo '{json.dumps(STATE)}'")

    def program(self, name, text):
        """A stand-in. (It is replaced and not written again: it may run.)"""
        path = self.programs / name
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def job(self, **options):
        options = {"columns": {"label": "late", "numeric": ["a", "b,c"], "regression": False},
                   "topic": "rows", "folder": self.folder / "job", "programs": self.programs} | options
        job = millrace.Job("shops", **options)
        self.addCleanup(job.stop, 1)
        return job

    def said(self, job, name):
        end = time.monotonic() + 30
        while not (text := (job.folder / f"{name}.log").read_text()):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        return text


class Starting(JobTest):
    def test_gives_each_program_its_flags(self):
        with self.job(training={"consistency": "eventual", "batch_rows": 8}, source={"until_end": True},
                      brokers="kafka:9092", workers=2, processes=2) as job:
            common = "--brokers kafka:9092 --job shops --workers 2"
            snapshots = f"--snapshot-dir {job.folder}/snapshots"
            self.assertEqual(self.said(job, "server"),
                             f"{self.programs}/ServerApp {common} {snapshots} --data-dir {job.folder}/server "
                             "--consistency eventual --batch-rows 8\n")
            self.assertEqual(self.said(job, "worker-1"),
                             f"{self.programs}/WorkerApp {common} --data-dir {job.folder}/worker-1\n")
            self.assertEqual(self.said(job, "source"),
                             f"{self.programs}/TopicSource --topic rows {common} "
                             "--label late --numeric a,\"b,c\" --until-end\n")
            self.assertIn("server, worker-0, worker-1, source runs", repr(job))

    def test_gives_all_programs_the_configuration(self):
        self.program("Watch", "echo \"$*\" >&2; exit 1")
        with self.job(config="secure.txt", processes=2) as job:
            flags = f"--config {os.getcwd()}/secure.txt --brokers localhost:9092 --job shops "
            for name in ("server", "worker-0", "worker-1", "source"):
                self.assertIn(flags, self.said(job, name))
            with self.assertRaisesRegex(RuntimeError, f"Watch failed: {flags}--once --json"):
                job.state()

    def test_reads_a_file_by_csv_producer(self):
        with self.job(topic=None, input="rows.csv") as job:
            self.assertIn(f"CsvProducer --input {os.getcwd()}/rows.csv ", self.said(job, "source"))

    def test_needs_one_source_of_rows(self):
        for options in ({"topic": None}, {"input": "rows.csv"}):
            with self.assertRaisesRegex(ValueError, "give either topic or input"):
                self.job(**options)

    def test_finds_the_programs_by_the_environment(self):
        with mock.patch.dict(os.environ, {"MILLRACE_BIN": str(self.programs)}):
            self.job(programs=None)
        with mock.patch.dict(os.environ, {"PATH": str(self.programs)}, clear=True):
            self.job(programs=None)
        os.unlink(self.programs / "WorkerApp")
        with self.assertRaisesRegex(FileNotFoundError, "WorkerApp is not in .*programs: build it .* MILLRACE_BIN"):
            self.job()


class Running(JobTest):
    def test_ends_when_all_programs_have_ended(self):
        for name in ("ServerApp", "WorkerApp", "TopicSource"):
            self.program(name, "exit 0")
        self.job().start().wait(timeout=30)

    def test_that_takes_too_long_is_an_error_with_what_the_programs_say(self):
        with self.job() as job, self.assertRaisesRegex(TimeoutError, "(?s)after 0.2 s.*TopicSource --topic rows"):
            self.said(job, "source")
            job.wait(timeout=0.2)
        with self.job() as job, self.assertRaisesRegex(TimeoutError, "learnt from 7 of 8 rows"):
            job.wait_for_rows(7)
            job.wait_for_rows(8, timeout=0.2)

    def test_is_waited_for_while_watch_gets_no_answer(self):
        asked = self.folder / "asked"
        self.program("Watch", f"if [ -e {asked} ]; then echo '{json.dumps(STATE)}'; exit; fi; touch {asked}; "
                              "echo 'no Kafka broker' >&2; exit 1")  # fmt: skip
        with self.job() as job:
            job.wait_for_rows(7)
            self.program("Watch", "echo 'no Kafka broker' >&2; exit 1")
            with self.assertRaisesRegex(TimeoutError, "(?s)learnt from 0 of 7 rows .*no Kafka broker.*server.log"):
                job.wait_for_rows(7, timeout=0.2)

    def test_a_program_that_fails_stops_the_others(self):
        self.program("WorkerApp", "echo 'no broker'; exit 1")
        job = self.job().start()
        with self.assertRaisesRegex(RuntimeError, "(?s)worker-0 ended with 1; .*worker-0.log:\nno broker"):
            job.wait(timeout=30)
        self.assertIn("nothing runs", repr(job))

    def test_is_stopped_by_signals(self):
        self.program("TopicSource", "trap '' TERM; echo deaf; while :; do sleep 0.1; done")
        job = self.job().start()
        self.said(job, "source")
        self.said(job, "server")
        job.stop(timeout=0.3)
        codes = {name: process.returncode for name, process in job._processes.items()}
        self.assertEqual(codes["source"], -signal.SIGKILL)
        self.assertEqual(codes["server"], -signal.SIGTERM)
        job.stop()

    def test_is_not_started_twice(self):
        job = self.job().start()
        with self.assertRaisesRegex(RuntimeError, "was started already"):
            job.start()


class Exporting(JobTest):
    def test_that_takes_too_long_is_an_error(self):
        with self.job() as job, self.assertRaisesRegex(TimeoutError, "no model of job shops .* after 0.2 s"):
            job.export(self.folder / "model", timeout=0.2)

    def test_takes_the_model_of_the_end_only_when_the_job_has_ended(self):
        self.program("ServerApp", 'case "$*" in *--export*) echo "$*" >&2; exit 1;; esac; exec sleep 60')
        end = self.folder / "job" / "snapshots" / "shops-end"
        end.mkdir(parents=True)
        (end / "manifest.json").write_text("{}")
        with self.job() as job, self.assertRaisesRegex(RuntimeError, "no model was exported: --brokers"):
            job.export(self.folder / "model")
        with self.assertRaisesRegex(RuntimeError, f"no model was exported: --from-snapshot {end}"):
            job.export(self.folder / "model")


class Figures(JobTest):
    def test_are_a_frame_with_a_line_for_each_kind(self):
        frame = self.job().figures()
        self.assertEqual(frame.index.tolist(), ["progressive", "window"])
        self.assertEqual(frame.loc["window", "log_loss"], 0.25)
        self.assertEqual(frame.columns.tolist(), ["rows", "log_loss"])

    def test_of_a_model_that_is_worse_than_the_class_frequencies_warn(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.job().figures()
        worse = STATE | {"worse_than_prior": "after 2000 rows the model is worse"}
        self.program("Watch", f"echo '{json.dumps(worse)}'")
        with self.assertWarnsRegex(UserWarning, "^job shops: after 2000 rows the model is worse$"):
            self.job().figures()

    def test_are_dicts_without_pandas(self):
        with mock.patch.dict("sys.modules", {"pandas": None}):
            self.assertEqual(self.job().figures()[1], {"figures": "window", "rows": 5, "log_loss": 0.25})

    def test_of_a_job_that_has_none_are_empty(self):
        self.program("Watch", "echo '{\"progressive\": null}'; exit 4")
        self.assertEqual(len(self.job().figures()), 0)

    def test_say_what_watch_says_when_it_fails(self):
        self.program("Watch", "echo 'no Kafka broker' >&2; exit 1")
        with self.assertRaisesRegex(RuntimeError, "Watch failed: no Kafka broker"):
            self.job().state()


class Sending(unittest.TestCase):
    def test_writes_cells_as_json_has_them(self):
        plain = topic._plain({"a": numpy.float32(0.5), "b": math.nan, "c": pandas.NA, "d": {"e": numpy.int64(3)},
                              "f": pandas.Timestamp("2026-01-02"), "g": True, "h": pandas.NaT, "i": [1, None]})
        self.assertEqual(plain, {"a": 0.5, "b": None, "c": None, "d": {"e": 3}, "f": "2026-01-02T00:00:00",
                                 "g": True, "h": None, "i": [1, None]})
        frame = pandas.DataFrame({"a": [1, 2], "b": ["x", None]})  # in pandas 3 that is NaN
        self.assertEqual([topic._plain(row) for row in topic._dicts(frame)],
                         [{"a": 1, "b": "x"}, {"a": 2, "b": None}])

    def test_writes_dates_in_iso_8601_and_all_digits_of_decimal_numbers(self):
        begin = "2026-01-02T03:04:05"
        plain = topic._plain({"us": numpy.datetime64(begin), "ns": numpy.datetime64(begin, "ns"),
                              "none": numpy.datetime64("NaT", "ns"), "few": decimal.Decimal("1.10"),
                              "no": decimal.Decimal("NaN")})  # fmt: skip
        self.assertEqual(plain, {"us": begin, "ns": f"{begin}.000000000", "none": None, "few": "1.10", "no": None})

    def test_names_the_row_that_is_none(self):
        writer = mock.Mock()
        with mock.patch.object(topic._native.TopicSender, "open", return_value=writer, create=True):
            for row in ([1, 2], 3, "text", None):
                with self.assertRaisesRegex(ValueError, r"rows\[1\]: it is of the type .*; a row is a dict"):
                    millrace.send([{"a": 1}, row], "rows")
            with self.assertRaisesRegex(ValueError, r"rows\[0\]: the key 1 is of the type int"):
                millrace.send([{"a": {1: 2}}], "rows")

    def test_names_the_brokers_that_do_not_answer(self):
        with self.assertRaisesRegex(ConnectionError, "127.0.0.1:1"):
            millrace.send([{"a": 1}], "rows", "127.0.0.1:1", timeout=0.2)

    def test_names_a_setting_that_is_wrong(self):
        with self.assertRaisesRegex(ValueError, "no.such.setting"):
            millrace.send([], "rows", "127.0.0.1:1", settings={"no.such.setting": "1"}, timeout=0.2)

    def test_wants_a_list_of_rows(self):
        with self.assertRaisesRegex(ValueError, "rows is one row"):
            millrace.send({"a": 1}, "rows", "127.0.0.1:1")


if __name__ == "__main__":
    unittest.main()
