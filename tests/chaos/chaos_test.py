#!/usr/bin/env python3
"""What scripts/chaos draws, and that each of its checks reports the error that it is there for."""

import collections
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import types
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "end_to_end")]

import chaos_job  # noqa: E402
import checks  # noqa: E402
import disks  # noqa: E402
import endless  # noqa: E402
import kafka_metadata  # noqa: E402
import plan as plans  # noqa: E402
import report as reports  # noqa: E402
import samples  # noqa: E402
import stage as stages  # noqa: E402
import topology  # noqa: E402
import troubles  # noqa: E402

SUMMARY = {"ended": True, "rows_trained": 100, "progressive": {"rows": 100}, "refused": 0,
           "non_finite_updates": 0, "undecodable_rows": 0}  # fmt: skip
Row = collections.namedtuple("Row", "values slots updates")


class Draws(unittest.TestCase):
    jobs = [plans.draw_job(seed, number) for seed in range(1, 31)
            for number in range(2 * len(plans.KINDS))]
    events = [event for job in jobs for event in job.events]

    def test_a_seed_and_a_number_give_the_same_job_whatever_was_drawn_before(self):
        self.assertEqual(plans.draw_job(7, 5), plans.draw_job(7, 5))
        self.assertNotEqual(plans.draw_job(7, 5).events, plans.draw_job(8, 5).events)
        self.assertNotEqual(plans.draw_job(7, 5).events, plans.draw_job(7, 5 + len(plans.KINDS)).events)

    def test_as_many_jobs_as_there_are_kinds_are_of_every_kind(self):
        for seed in 1, 2, 9:
            kinds = [plans.draw_job(seed, n).kind for n in range(len(plans.KINDS))]
            self.assertEqual(sorted(kinds), sorted(plans.KINDS))
            self.assertEqual(len(set(kinds)), len(kinds))

    def test_every_model_learns_classes_and_numbers_and_those_that_can_from_a_buffer(self):
        kinds = {(kind.model, kind.schedule, kind.regression) for kind in plans.KINDS}
        for model in "softmax", "fm", "deepfm", "network":
            for regression in False, True:
                self.assertIn((model, "one-pass", regression), kinds)
        self.assertEqual({kind for kind in kinds if kind[1] == "buffer"},
                         {("softmax", "buffer", False), ("softmax", "buffer", True),
                          ("network", "buffer", False)})

    def test_a_regression_has_every_loss_and_no_class_weights_and_classes_have_no_loss(self):
        losses = collections.Counter()
        for job in self.jobs:
            flag = "--class-weight" if job.kind.regression else "--loss"
            self.assertNotIn(flag, job.training)
            if "--loss" in job.training:
                losses[job.training[job.training.index("--loss") + 1]] += 1
        self.assertEqual(set(losses), {"squared", "absolute", "huber"})

    def test_everything_that_can_be_drawn_is(self):
        names = {(troubles.of_broker(event), event.name) for event in self.events}
        cuts = {f"cut-{shape}" for shape in plans.CUTS}
        self.assertEqual(names, {(False, name) for name in
                                 ({*plans.PROGRAM_EVENTS} - {"kill-servers", "kill-all", "cut"}) | cuts}
                         | {(True, name) for name in ({*plans.BROKER_EVENTS} - {"cut"}) | cuts})
        self.assertEqual({event.target for event in self.events},
                         {*plans.BROKERS, *plans.PROGRAMS, "servers", "programs"})
        self.assertEqual({job.shards for job in self.jobs}, {1, 2, 3})
        self.assertEqual({job.replicas for job in self.jobs}, {0, 1, 2})
        again = [(job.shards, job.again.shards) for job in self.jobs if job.again]
        self.assertTrue(any(a < b for a, b in again) and any(a > b for a, b in again))
        self.assertFalse(any(a == b for a, b in again))

    def test_events_of_programs_do_not_overlap_nor_do_those_of_brokers(self):
        for job in self.jobs:
            for broker in False, True:
                lane = [e for e in job.events if troubles.of_broker(e) == broker]
                for one, other in zip(lane, lane[1:]):
                    self.assertLess(one.at + one.lasts, other.at, job)

    def test_each_event_has_victims_that_are_of_the_job_and_can_be_hit_so(self):
        for job in self.jobs:
            for event in job.events:
                self.assertIn(event.target, [*job.programs, *plans.BROKERS, "servers", "programs"])
                self.assertIn(event.kind, troubles.BROKER if troubles.of_broker(event)
                              else troubles.PROGRAM)
                if event.peer:
                    self.assertIn(event.peer, [*job.programs, *plans.BROKERS])
                    self.assertNotEqual(event.peer, event.target)
                if troubles.of_broker(event):
                    continue
                if event.kind == "replace":
                    self.assertIn(event.target, job.servers)
                if event.kind == "fill":
                    self.assertIn(event.target, job.writers)
                if event.kind == "fill-start":
                    self.assertIn((job.kind.schedule, event.target[:-1]), [("buffer", "worker")])
                if event.kind == "wipe":
                    self.assertNotEqual(event.target, "producer")

    def test_the_disks_of_all_who_write_to_one_are_filled(self):
        filled = collections.defaultdict(set)
        for job in self.jobs:
            name = job.kind.model + " regression" * job.kind.regression
            kind = "buffer" if job.kind.schedule == "buffer" else name
            filled[kind] |= {event.target for event in job.events if event.kind == "fill"}
        servers = {"server0", "server1", "server2"}
        self.assertLessEqual(servers, set().union(*filled.values()))
        others_of = {"buffer": {"worker0", "worker1"}, "fm": {"producer"}, "deepfm": {"producer"}}
        for kind in filled:
            others = others_of.get(kind, set())
            self.assertEqual(filled[kind] - {*plans.BROKERS} - servers, others)

    def test_only_sequential_one_pass_jobs_are_compared_by_bytes(self):
        for job in self.jobs:
            self.assertEqual(job.same_bytes, (job.kind.consistency, job.kind.schedule)
                             == ("sequential", "one-pass"))


class Rows(unittest.TestCase):
    """What the jobs' data and columns are, by kind."""

    def job(self, *kind, **options):
        kind = plans.Kind(*kind, **options)
        return types.SimpleNamespace(kind=kind, rows=200, data_seed=3)

    def flag(self, job, name):
        features = chaos_job.features(job)
        return features[features.index(name) + 1] if name in features else None

    def test_the_label_of_a_regression_is_a_number_and_no_column_beside(self):
        for model in "softmax", "fm", "deepfm", "network":
            job = self.job(model, "sequential", regression=True)
            self.assertEqual(self.flag(job, "--label"), "price")
            self.assertIn("--regression", chaos_job.features(job))
            self.assertNotIn("--classes", chaos_job.features(job))
            self.assertNotIn("price", self.flag(job, "--numeric"))
            job = self.job(model, "sequential")
            self.assertEqual(self.flag(job, "--label"), "verdict")
            self.assertNotIn("--regression", chaos_job.features(job))
            for name in "--numeric", "--ids", "--categorical":
                self.assertNotIn("verdict", self.flag(job, name) or "")

    def test_only_models_that_take_them_have_ids_and_none_does_on_a_buffer(self):
        for model in "softmax", "fm", "deepfm", "network":
            for regression in False, True:
                job = self.job(model, "eventual", regression=regression)
                self.assertEqual("--ids" in chaos_job.features(job), model != "softmax")
                self.assertEqual("--categorical" in chaos_job.features(job), model == "softmax")
        for model in "softmax", "network":
            self.assertNotIn("--ids", chaos_job.features(self.job(model, "eventual", "buffer")))

    def test_rows_of_classes_that_are_not_asked_for_are_not_to_be_trained_on(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "rows.csv"
            topology.write_csv(path, 200, seed=3)
            middle = path.read_text(encoding="utf-8").count(",middle,")
            self.assertGreater(middle, 20)
            for model in "softmax", "fm", "deepfm", "network":
                for regression in False, True:
                    job = self.job(model, "sequential", regression=regression)
                    rejects = middle if model in ("fm", "deepfm") and not regression else 0
                    self.assertEqual(chaos_job.write_data(job, path), 200 - rejects)
                    self.assertEqual(len(chaos_job.malformed_ids(job, path)), rejects)
                    self.assertEqual("producer" in job.kind.other_writers, rejects > 0)


class Checks(unittest.TestCase):
    """Planted errors: each must be reported, and nothing else."""

    def test_each_row_counted_once_is_right(self):
        self.assertEqual(checks.wrong_counts(SUMMARY, 100, "one-pass"), [])

    def test_a_row_that_is_missing_or_counted_twice_is_reported(self):
        for rows in 99, 101:
            wrong = checks.wrong_counts(SUMMARY | {"rows_trained": rows}, 100, "one-pass")
            self.assertEqual(wrong, [f"rows trained on: {rows} instead of 100"])
            wrong = checks.wrong_counts(SUMMARY | {"progressive": {"rows": rows}}, 100, "one-pass")
            self.assertEqual(wrong, [f"rows tested before: {rows} instead of 100"])

    def test_no_figures_at_all_are_reported(self):
        self.assertEqual(len(checks.wrong_counts({}, 100, "one-pass")), 6)
        self.assertEqual(len(checks.wrong_counts({"ended": True}, 100, "buffer")), 5)

    def test_a_buffer_may_miss_rows_that_were_replaced_but_counts_none_twice(self):
        fewer = SUMMARY | {"rows_trained": 90, "progressive": {"rows": 90}}
        self.assertEqual(checks.wrong_counts(fewer, 100, "buffer"), [])
        more = SUMMARY | {"rows_trained": 101}
        self.assertEqual(len(checks.wrong_counts(more, 100, "buffer")), 1)

    def test_records_that_nobody_could_use_are_reported(self):
        for what in "refused", "non_finite_updates", "undecodable_rows":
            self.assertEqual(checks.wrong_counts(SUMMARY | {what: 2}, 100, "one-pass"),
                             [f"{what}: 2"])

    def test_one_byte_of_weights_or_of_an_embedding_row_is_reported(self):
        rows = {1: Row(b"a", b"b", b"c"), 2: Row(b"d", b"e", b"f")}
        self.assertEqual(checks.different_results(b"w", b"w", dict(rows), rows), [])
        self.assertIn("weights differ", checks.different_results(b"v", b"w", rows, rows)[0])
        other = rows | {2: Row(b"d", b"e", b"g")}
        self.assertIn("1 of 2 embedding rows are different",
                      checks.different_results(b"w", b"w", other, rows)[0])
        self.assertIn("missing", checks.different_results(b"w", b"w", {1: rows[1]}, rows)[0])
        self.assertIn("surplus",
                      checks.different_results(b"w", b"w", rows | {3: rows[1]}, rows)[0])

    def test_a_malformed_row_that_is_missing_or_twice_in_the_reject_file_is_reported(self):
        self.assertEqual(checks.wrong_rejects(["3", "8"], ["3", "8"]), [])
        for found, sign in (["3"], "missing are ['8']"), (["3", "8", "8"], "there ['8']"), \
                           (["3", "8", "9"], "there ['9']"), (["8", "3"], "2 rows of 2"):
            (wrong,) = checks.wrong_rejects(found, ["3", "8"])
            self.assertIn(sign, wrong)

    def test_a_program_that_ends_on_a_full_disk_must_name_the_folder_and_say_that_it_is_full(self):
        for said, wrong in (
                ("WorkerApp: the store in '/x/worker1/j': No space left on device", []),
                ("WorkerApp: the store in '/x/worker1/j': File too large", []),
                ("WorkerApp: the store in '/x/worker0/j': No space left on device", ["with: WorkerApp"]),
                ("WorkerApp: the store in '/x/worker1/j': cannot be read", ["with: WorkerApp"]),
                ("12:00:00.000 warning /x/worker1/j: No space left on device", ["no error"])):
            found = checks.unexplained_end("worker1", said, "/x/worker1")
            self.assertEqual(len(found), len(wrong), said)
            for one, sign in zip(found, wrong):
                self.assertIn(sign, one)

    LOG = ("12:00:00.000 info shard 0: answers\n12:00:01.000 warning waiting\n"
           "kafka: connected to 127.0.0.1:1\njob j: waiting for features (5 s)\n"
           "sent 100 rows; 0 malformed rows are in error.csv\n")

    def test_a_log_without_errors_is_right(self):
        self.assertEqual(checks.wrong_lines(self.LOG, may_have_ended=False), [])

    def test_errors_broken_invariants_and_raw_lines_of_libraries_are_reported(self):
        for line in ("12:00:00.000 error no", "12:00:00.000 \x1b[31m\x1b[1mcritical\x1b[m no",
                     "a/b.cc:12: broken invariant: x == y",
                     "terminate called after throwing an instance of 'std::bad_alloc'",
                     "%3|1700000000.1|FAIL|rdkafka#producer-1| no",
                     "==12==ERROR: AddressSanitizer: heap-use-after-free"):
            self.assertEqual(checks.wrong_lines(self.LOG + line, may_have_ended=True), [line])

    def test_why_a_program_ended_may_be_said_only_by_one_whose_end_was_caused(self):
        line = "ServerApp: /x/server0: no space left"
        self.assertEqual(checks.wrong_lines(self.LOG + line, may_have_ended=False), [line])
        self.assertEqual(checks.wrong_lines(self.LOG + line, may_have_ended=True), [])

    def test_warnings_are_counted_by_kind(self):
        log = ("12:00:00.000 warning shard 1: no usable replica from 10.77.1.2:3412\n" * 2
               + "12:00:05.000 warning shard 2: no usable replica from 10.77.5.2:1\n")
        self.assertEqual(list(checks.warnings(log).values()), [3])

    def test_too_much_memory_is_reported(self):
        limits = {"server": 100 << 20}
        self.assertEqual(checks.too_much_memory({"server1": 99 << 20, "broker1": 1 << 40}, limits), [])
        self.assertEqual(checks.too_much_memory({"server1": 101 << 20}, limits),
                         ["server1 took 101 MiB of memory; 100 are its limit"])


class Growth(unittest.TestCase):
    def test_the_slope_is_that_of_the_line_of_least_squares(self):
        self.assertEqual(samples.slope([(x, 3 * x + 1) for x in range(10)]), 3)
        self.assertEqual(samples.slope([(0, 5)]), 0)
        self.assertAlmostEqual(samples.slope([(0, 0), (1, 3), (2, 3)]), 1.5)

    def test_a_leak_is_growth_and_a_saw_or_a_step_at_the_beginning_is_not(self):
        self.assertTrue(samples.grows([(x, 10 * x) for x in range(60)], 100))
        self.assertFalse(samples.grows([(x, x % 10 * 100) for x in range(60)], 100))
        self.assertFalse(samples.grows([(x, 500 if x > 8 else 0) for x in range(60)], 600))
        self.assertFalse(samples.grows([(x, 1000 + x) for x in range(60)], 100))

    def test_the_memory_of_a_process_is_read_and_one_that_is_gone_has_none(self):
        child = subprocess.Popen(["sleep", "60"])
        resident, anonymous = samples.memory(os.getpid())
        self.assertGreater(resident, anonymous)
        self.assertGreater(anonymous, 1 << 20)
        self.assertIsNotNone(samples.memory(child.pid))
        child.kill()
        child.wait()
        self.assertIsNone(samples.memory(child.pid))


class Disks(unittest.TestCase):
    def test_a_process_cannot_write_beyond_the_limit_of_its_folder_until_there_is_room(self):
        with tempfile.TemporaryDirectory() as folder:
            disk = disks.LimitedFolder(pathlib.Path(folder) / "disk", 1)
            writer = subprocess.Popen(
                ["env", "--ignore-signal=SIGXFSZ", sys.executable, "-c",
                 "import sys\nfor line in sys.stdin:\n"
                 " try:\n  open(line.strip(), 'ab').write(b'x' * 300000); print('ok', flush=True)\n"
                 " except OSError as error:\n  print(error.strerror, flush=True)"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # fmt: skip

            def write(name):
                writer.stdin.write(f"{disk.folder / name}\n")
                writer.stdin.flush()
                return writer.stdout.readline().strip()

            self.assertEqual(write("a"), "ok")
            disk.fill(writer.pid)
            self.assertEqual(write("b"), "File too large")
            disk.make_room(writer.pid)
            self.assertEqual(write("c"), "ok")
            self.assertGreater(disk.used(), 600_000)
            disk.wipe()
            self.assertEqual(disk.used(), 0)
            writer.communicate()


class Metadata(unittest.TestCase):
    def test_a_response_is_read(self):
        def text(value):
            return struct.pack(">h", len(value)) + value.encode()

        def numbers(*values):
            return struct.pack(">i", len(values)) + b"".join(struct.pack(">i", v) for v in values)

        data = (struct.pack(">i", 1) + struct.pack(">i", 7) + text("host") + struct.pack(">i", 9092)
                + struct.pack(">h", -1)  # a rack that is not there
                + struct.pack(">i", 7)
                + struct.pack(">i", 1) + struct.pack(">h", 0) + text("job.weights") + b"\0"
                + struct.pack(">i", 1) + struct.pack(">hii", 0, 3, 7) + numbers(7, 8) + numbers(7))
        brokers, partitions = kafka_metadata.read_metadata(data)
        self.assertEqual(brokers, [7])
        self.assertEqual(partitions, [kafka_metadata.Partition("job.weights", 3, 7, (7, 8), (7,))])


class _Cluster:
    """Brokers that are always well."""

    names = ()

    def topic_bytes(self, prefix):
        return {prefix: 1}

    def is_whole(self):
        return True


class _Job:
    """Programs that are shells, in a folder of their own: nothing depends on how fast they are."""

    def __init__(self, folder, **scripts):
        self.name, self.folder, self.scripts, self.logs = "job", folder, scripts, {}
        self.plan = types.SimpleNamespace(seconds=0, servers={"server0": [0]},
                                          programs=list(scripts))
        self.processes, self.starts, self.words = {}, collections.Counter(), {}
        self.start(*scripts)

    def start(self, *names):
        for name in names:
            self.starts[name] += 1
            process = subprocess.Popen(
                ["sh", "-c", self.scripts[name], "sh", str(self.starts[name])], cwd=self.folder,
                stdout=subprocess.PIPE)
            process.stdout.readline()
            process.stdout.close()
            self.processes[name] = process

    def said(self, name):
        return self.words.get(name, "")

    def kill_all(self, names):
        for name in names:
            self.processes[name].kill()
        for name in names:
            self.processes[name].wait()

    def close(self):
        self.kill_all(self.processes)


class _Disk:
    can_be_full = True

    def __init__(self, folder):
        self.folder, self.file = folder, pathlib.Path(folder) / "full"

    def fill(self, pid):
        del pid
        self.file.touch()

    def make_room(self, pid):
        pass


GOOD = "echo; exit 0"
FOR_EVER = "echo; exec sleep 1000"
TWICE = "echo; [ $1 = 2 ] && exit 0; exec sleep 1000"  # ends well when it is started again


def when(file, code):
    return f"echo; until [ -e {file} ]; do sleep 0.02; done; exit {code}"


class Stages(unittest.TestCase):
    """What is judged while a job runs."""

    def stage(self, **scripts):
        folder = tempfile.TemporaryDirectory(prefix="chaos-test-")
        self.addCleanup(folder.cleanup)
        job = _Job(folder.name, **scripts)
        self.addCleanup(job.close)
        return stages.Stage(job, _Cluster(), None)

    def failure(self, stage, *events):
        with self.assertRaises(stages.Failed):
            stage.run(events, ())
        self.assertEqual(len(stage.wrong), 1, stage.wrong)
        return stage.wrong[0]

    def happens(self, stage, *events):
        stage.run(events, ())
        self.assertEqual(stage.wrong, [])
        self.assertEqual([event for event, began, *_ in stage.happened if began is not None],
                         list(events))

    def test_programs_that_end_well_are_right(self):
        self.happens(self.stage(server0=GOOD, worker0=GOOD))

    def test_a_program_that_dies_by_itself_is_reported(self):
        stage = self.stage(server0=FOR_EVER, worker0="echo; exit 1")
        self.assertEqual(self.failure(stage), "worker0 ended with code 1, which no event has caused")

    def test_who_asked_for_a_snapshot_may_end_with_an_error_when_the_job_has_ended(self):
        waits = "trap 'exit 130' TERM; echo; while :; do sleep 0.02; done"
        for script, wrong in ("echo; exit 1", 0), (waits, 0), ("echo; exit 4", 1):
            stage = self.stage(server0=GOOD, ask1=script)
            stage.asks.append("ask1")
            if script != waits:
                stage.job.processes["ask1"].wait()  # no tick comes before the end of the job
            stage._end_asks()
            self.assertEqual(len(stage.wrong), wrong, stage.wrong)
            self.assertIn("ask1", stage.caused)

    def test_a_program_that_somebody_else_kills_is_reported(self):
        stage = self.stage(server0=FOR_EVER, worker0=FOR_EVER)
        stage.job.processes["worker0"].kill()
        self.assertIn("worker0 ended with code -9", self.failure(stage))

    def test_programs_that_an_event_kills_are_started_again(self):
        stage = self.stage(server0=TWICE, worker0=TWICE)
        self.happens(stage, plans.Event(0.1, "kill", "programs", 0.1))
        self.assertEqual(stage.job.starts, {"server0": 2, "worker0": 2})

    def test_one_that_is_stopped_goes_on(self):
        stage = self.stage(server0=TWICE)
        self.happens(stage, plans.Event(0, "stop", "server0", 0.1),
                     plans.Event(0.2, "kill", "server0", 0.1))

    def test_one_that_is_told_to_end_must_end_with_a_code_that_says_so(self):
        ends = "trap 'exit CODE' TERM; echo; [ $1 = 2 ] && exit 0; while :; do sleep 0.02; done"
        stage = self.stage(server0=GOOD, worker0=ends.replace("CODE", "130"))
        self.happens(stage, plans.Event(0, "terminate", "worker0", 0.1))
        stage = self.stage(server0=GOOD, worker0=ends.replace("CODE", "7"))
        self.assertEqual(self.failure(stage, plans.Event(0, "terminate", "worker0", 0.1)),
                         "worker0 ended with code 7 on SIGTERM")

    def test_one_that_was_replaced_must_end_with_an_error_of_its_own(self):
        for code, wrong in (4, None), (-11, "server0, which had been replaced, ended with code -11"):
            end = "exit 4" if code == 4 else "kill -SEGV $$"
            stage = self.stage(server0="echo; [ $1 = 2 ] && touch there && exit 0; "
                               f"until [ -e there ]; do sleep 0.02; done; {end}")
            event = plans.Event(0, "replace", "server0", 0.2)
            if wrong:
                self.assertEqual(self.failure(stage, event), wrong)
            else:
                self.happens(stage, event)

    def test_a_full_disk_excuses_the_end_of_its_program_and_no_other(self):
        stage = self.stage(server0=f"[ $1 = 2 ] && echo && exit 0; {when('full', 1)}", worker0=GOOD)
        stage.job.disks = {"server0": _Disk(stage.job.folder)}
        stage.job.words["server0"] = f"ServerApp: {stage.job.folder}/1.log: No space left on device"
        self.happens(stage, plans.Event(0, "fill", "server0", 0.2))
        self.assertEqual(stage.caused, {"server0"})
        stage = self.stage(server0=when("full", 1), worker0=FOR_EVER)
        stage.job.disks = {"worker0": _Disk(stage.job.folder)}
        self.assertIn("server0 ended with code 1",
                      self.failure(stage, plans.Event(0, "fill", "worker0", 0.2)))

    def test_one_that_is_started_on_a_full_disk_must_end_and_is_started_again_when_there_is_room(self):
        patience, stages.PATIENCE = stages.PATIENCE, 0.5
        self.addCleanup(setattr, stages, "PATIENCE", patience)
        event = plans.Event(0, "fill-start", "worker0", 0.1)
        for second, wrong in ("exit 1", ""), ("exit 0", "with code 0"), \
                             ("exec sleep 1000", "^hangs|is not over"):  # fmt: skip
            stage = self.stage(worker0=f"echo; [ $1 = 2 ] && {second}; [ $1 = 3 ] && exit 0; "
                               "exec sleep 1000", server0=GOOD)  # fmt: skip
            stage.job.disks = {"worker0": _Disk(stage.job.folder)}
            stage.job.words["worker0"] = f"WorkerApp: {stage.job.folder}/b: No space left on device"
            if wrong:
                self.assertRegex(self.failure(stage, event), wrong)
            else:
                self.happens(stage, event)
                self.assertEqual(stage.job.starts["worker0"], 3)

    def test_who_has_ended_of_a_full_disk_when_all_others_have_is_started_again(self):
        stage = self.stage(worker0=f"[ $1 = 2 ] && echo && exit 0; "
                           f"{when('full', 1)}", server0=GOOD)  # fmt: skip
        stage.job.disks = {"worker0": _Disk(stage.job.folder)}
        stage.job.words["worker0"] = f"WorkerApp: {stage.job.folder}/b: No space left on device"
        self.happens(stage, plans.Event(0, "fill", "worker0", 1000))
        self.assertEqual(stage.job.starts["worker0"], 2)

    def test_one_whose_disk_is_full_may_not_end_with_another_error(self):
        stage = self.stage(worker0=f"[ $1 = 2 ] && echo && exit 0; {when('full', 1)}", server0=GOOD)
        stage.job.disks = {"worker0": _Disk(stage.job.folder)}
        stage.job.words["worker0"] = "WorkerApp: the rows are gone"
        self.assertIn("worker0 does not say that",
                      self.failure(stage, plans.Event(0, "fill", "worker0", 0.2)))

    def test_a_job_that_does_not_end_is_reported(self):
        patience, stages.PATIENCE = stages.PATIENCE, 0.5
        self.addCleanup(setattr, stages, "PATIENCE", patience)
        stage = self.stage(server0=FOR_EVER, worker0=GOOD)
        self.assertIn("server0 still run", self.failure(stage))


class Growth(unittest.TestCase):
    """What is judged of a stream that does not end."""

    def wrong(self, name, last_mib):
        stream = endless.Endless.__new__(endless.Endless)
        stream.cluster = types.SimpleNamespace(names=["broker1"])
        stream.memory, stream.anonymous, stream.disk, stream.topics = (
            samples.Series() for _ in range(4))
        for second in range(61):
            stream.memory.add(name, second, int(last_mib * second / 60) << 20)
        return stream.growth(0, small=False)[1]

    def test_a_program_whose_memory_goes_on_growing_is_reported(self):
        self.assertEqual(len(self.wrong("ids server0", 200)), 1)
        self.assertEqual(self.wrong("ids server0", 10), [])

    def test_a_broker_may_take_its_heap_and_no_more(self):
        self.assertEqual(self.wrong("broker1", 500), [])
        self.assertEqual(len(self.wrong("broker1", 600)), 1)


class Reports(unittest.TestCase):
    def test_what_was_not_possible_and_what_failed_is_told(self):
        report = reports.Report()
        report.impossible["cutting off"] = "no namespaces"
        report.failures.append("seed 1, job 2: rows trained on: 99 instead of 100")
        lines = "\n".join(report.lines())
        self.assertIn("NOT TRIED HERE: cutting off: no namespaces", lines)
        self.assertIn("FAILED: seed 1, job 2: rows trained on: 99 instead of 100", lines)

    def test_events_are_counted_by_what_and_whom_they_hit(self):
        report, events = reports.Report(), [plans.Event(1, "kill", "worker0", 1),
                                            plans.Event(2, "kill", "broker1", 1)]
        report.add_stage(types.SimpleNamespace(
            happened=[(events[0], 1.0, 2.0, ""), (events[1], None, None, "")], packets={}, asks=[],
            asked_in_vain=0,            memory=samples.Series(), topics=samples.Series()))
        self.assertEqual(report.events, {"kill program": 1})
        self.assertEqual(report.not_reached, {"kill broker": 1})


if __name__ == "__main__":
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    unittest.main()
