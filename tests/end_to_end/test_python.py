"""The Python package on a real broker: its example, and rows that it sends. Needs the package and pandas."""

import contextlib
import doctest
import functools
import gc
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
import types
import unittest

import numpy
import pandas

import millrace

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import test_reshard  # noqa: E402
import test_trainers  # noqa: E402
import topology  # noqa: E402

EXAMPLES = topology.ROOT / "python" / "examples"
PACED_TRAINER = pathlib.Path(__file__).resolve().parent / "paced_trainer.py"
EXAMPLE = EXAMPLES / "frame_to_stream.py"


class OnABroker(topology.OnABroker):
    def test_the_example_goes_from_a_frame_to_a_job_to_predictions(self):
        done = subprocess.run([sys.executable, EXAMPLE, self.broker.address, self.path / "clicks"],
                              env={**os.environ, "MILLRACE_BIN": str(topology.PROGRAMS)}, timeout=topology.PATIENCE,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("sent 4000 rows", done.stdout)
        self.assertRegex(done.stdout, r"progressive +4000 ")
        self.assertGreater(float(re.search(r"model: ([\d.]+)%", done.stdout).group(1)), 70)
        # One worker in its batches learns what one process learns row by row.
        self.assertLess(float(re.search(r"by at most ([\d.]+)", done.stdout).group(1)), 0.01)

    def test_the_page_goes_on_from_its_learners_to_a_stream(self):
        text = (topology.ROOT / "docs" / "python.md").read_text(encoding="utf-8")
        names = {}
        with contextlib.chdir(self.path):
            for example in doctest.DocTestParser().get_examples(text):
                with contextlib.suppress(*[Exception] if example.exc_msg else []):
                    exec(example.source, names)
            # As if the broker and the programs were where the page has them.
            names["millrace"] = types.SimpleNamespace(**{**vars(millrace), "Job": functools.partial(
                millrace.Job, brokers=self.broker.address, programs=topology.PROGRAMS)})
            block = re.search(r'(?m)^    frame\["fare"\].*\n(?:    .*\n)+', text)[0]
            exec(textwrap.dedent(block).replace("localhost:9092", self.broker.address), names)
        self.assertEqual(names["model"].predict(names["frame"]).shape, (200,))

    def test_rows_are_on_the_topic_when_send_returns(self):
        rows = [{"n": i, "text": "Größe", "none": None} for i in range(25_000)]
        self.assertEqual(millrace.send(iter(rows), "many", self.broker.address, partitions=3), len(rows))
        self.assertEqual(sorted(self.broker.offsets("many", 3, "latest")), [8333, 8333, 8334])
        read = [json.loads(line) for line in self.broker.records("many", len(rows)).splitlines()]
        self.assertEqual(sorted(read, key=lambda row: row["n"]), rows)

    def test_a_row_that_is_too_large_is_an_error(self):
        with self.assertRaisesRegex((ValueError, RuntimeError), "1100009 bytes to large .*too large"):
            millrace.send([{"a": "x" * 1_100_000}], "large", self.broker.address)

    def test_a_running_job_gives_its_model_while_rows_come(self):
        rows = [{"x": i % 10, "y": "yes" if i % 10 < 5 else "no"} for i in range(100)]
        done = threading.Event()

        def send():
            while not done.wait(0.1):
                millrace.send(rows, "endless", self.broker.address)

        writer = threading.Thread(target=send)
        # TopicSource does not wait for a topic that is not there.
        millrace.send(rows, "endless", self.broker.address)
        with millrace.Job("endless", columns={"label": "y", "classes": ["no", "yes"], "numeric": ["x"]},
                          topic="endless", training={"batch_rows": 8}, workers=2,
                          brokers=self.broker.address, folder=self.path / "endless",
                          programs=topology.PROGRAMS) as job:  # fmt: skip
            self.addCleanup(done.set)
            writer.start()
            job.wait_for_rows(200, timeout=topology.PATIENCE)
            model = job.export(self.path / "endless-model")
            done.set()
            writer.join()
        self.assertGreaterEqual(int(model.description["rows"]), 200)
        self.assertEqual(model.predict([{"x": 1}, {"x": 8}]).tolist(), ["yes", "no"])

    def test_a_frame_becomes_a_job_that_ends_and_leaves_its_model(self):
        draw = numpy.random.default_rng(3)
        frame = pandas.DataFrame({"x": draw.normal(size=500), "day": draw.integers(0, 7, 500)})
        frame["y"] = 3 * frame["x"] + frame["day"]
        millrace.send(frame, "numbers", self.broker.address)
        with millrace.Job("numbers", columns={"label": "y", "regression": True, "numeric": ["x"],
                                              "categorical": ["day"]},
                          topic="numbers", source={"until_end": True}, workers=2, brokers=self.broker.address,
                          folder=self.path / "numbers", programs=topology.PROGRAMS) as job:
            job.wait(timeout=topology.PATIENCE)
            model = job.export(self.path / "numbers-model")
        self.assertTrue(job.state()["ended"])
        self.assertEqual(job.figures().loc["progressive", "rows"], 500)
        errors = model.predict(frame) - frame["y"]
        self.assertLess(errors.std(), frame["y"].std() / 4)


STEPS = 600


class Factors(test_trainers.OnABroker):
    """Trainers whose embedding tables are on the servers."""

    def factors_of(self, name, servers=test_trainers.SERVERS, steps=STEPS, training=(), also=None):
        """What both trainers read in the end; also: what is done to the job meanwhile."""
        job = self.job(name, ("--optimizer", "adagrad", "--learning-rate", "0.3", *training),
                       [sys.executable, EXAMPLES / "factors_trainer.py"], servers, steps)
        files = [self.path / f"{name}-{trainer}.npy" for trainer in range(2)]
        for trainer, file in enumerate(files):
            job.commands[f"trainer{trainer}"][-1] = file
        job.start()
        if also is not None:
            also(job)
        job.wait_all()
        first, second = (numpy.load(file) for file in files)
        self.assertEqual(first.shape, (800, 4))
        self.assertEqual(first.tobytes(), second.tobytes())
        return job, first

    def kill_each_once(self, job):
        step = 0
        for name in "trainer1", "server1", "trainer0", "server":
            for trainer in "trainer0", "trainer1":
                self.wait_for_step(job, trainer, step + 50)
            step = max(self.last_step(job, trainer) for trainer in ("trainer0", "trainer1"))
            self.assertLess(step, STEPS - 50, "too late to be of any use")
            job.kill(name)
            job.start(name)

    def test_are_the_same_bytes_whoever_is_killed_and_however_many_shards_there_are(self):
        calm, right = self.factors_of("factors-calm")
        errors = [float(error) for error in re.findall(r"^step \d+: ([\d.]+)$", calm.log("trainer0"), re.M)]
        self.assertGreater(sum(errors[:10]), 20, "it knows nothing at first")
        self.assertLess(sum(errors[-10:]), 7, "it has learnt the ratings")
        killed, factors = self.factors_of("factors-killed", also=self.kill_each_once)
        self.assertEqual(factors.tobytes(), right.tobytes())
        self.assertNotIn("step 0: ", killed.said("trainer0"), "it goes on where it was killed")
        other, factors = self.factors_of("factors-shards", servers={"server": [0, 1], "server1": [2]})
        self.assertEqual(factors.tobytes(), right.tobytes())

    def test_of_a_snapshot_are_its_files_rows_and_go_on_with_more_shards(self):
        snapshots = self.path / "factors-snapshots"
        whole, right = self.factors_of("factors-half", steps=200, training=("--snapshot-dir", snapshots))
        loader = types.ModuleType("load_snapshot")
        exec((topology.ROOT / "docs" / "load_snapshot.py").read_text(encoding="utf-8"), loader.__dict__)
        weights, ids, rows, admitted = loader.load(snapshots / "factors-half-end")
        self.assertEqual((weights.size, rows.shape[1], admitted.all()), (1, 4, True))
        table, number = loader.tables(ids)
        for of_table, values in ((0, right[:500]), (1, right[500:])):
            own = table == of_table
            self.assertGreater(own.sum(), 250)
            self.assertEqual(rows[own].tobytes(), values[number[own]].tobytes())
        rest, after = self.factors_of(
            "factors-rest", steps=0, servers={"server": [0, 1], "server1": [2]},
            training=("--from-snapshot", snapshots / "factors-half-end", "--new-stream"))  # fmt: skip
        self.assertEqual(after.tobytes(), right.tobytes())


class ReshardingFactors(test_reshard.TrainersOnABroker):
    """Trainers with embedding tables on servers whose number of shards changes."""

    training = ["--optimizer", "adagrad", "--learning-rate", "0.3"]

    def command(self, job, pause, handler):
        return [sys.executable, PACED_TRAINER, pause, EXAMPLES / "factors_trainer.py", self.broker.address, job.name, 2,
                "{rank}", self.steps, job.folder / "{rank}.npy"]  # fmt: skip

    def end_of(self, job):
        weights = super().end_of(job)
        first, second = ((job.folder / f"{trainer}.npy").read_bytes() for trainer in range(2))
        self.assertEqual(first, second)
        return weights + first

    def test_changes_no_byte_whoever_is_killed(self):
        self.assert_goes_to_three_shards_and_back_whoever_is_killed()


class TrainersHere(topology.OnABroker):
    def server_of(self, name, trainers=1, flags=()):
        """A job of trainers that are in this process, and its server."""
        job = topology.Job(self.broker, name, self.path, workers=trainers, training=["--model", "external"])
        for other in "worker0", "worker1", "producer":
            del job.commands[other]
        job.commands["server"] += flags
        self.addCleanup(job.close)
        return job.start()

    def manager(self, job, **options):
        return millrace.ParameterManager(job.name, brokers=self.broker.address, timeout=60, **options)


class Trainers(TrainersHere, test_trainers.OnABroker):
    trainer = [sys.executable, EXAMPLES / "digits_trainer.py"]

    def test_whose_processes_and_servers_are_killed_end_in_the_bytes_of_an_undisturbed_run(self):
        self.assert_ends_in_the_same_bytes_whoever_is_killed()

    def test_in_this_process_share_the_librarys_memory(self):
        job = self.server_of("shared")
        manager = self.manager(job)
        w, one = manager.register("w", (2, 3), "add"), manager.register("one", handler="assign")
        self.assertEqual((w.data.shape, one.data.shape, w.data.dtype), ((2, 3), (), numpy.float32))
        manager.put(w, [[1, 2, 3], [4, 5, 6]])
        one.data[...] = 7
        manager.put(one)
        self.assertEqual(manager.steps(), 0)
        read = manager.get(w)
        self.assertIs(read, w.data)
        w.grad[...] = 1
        w.grad += 1
        manager.update(w)
        manager.update(one, 9)
        self.assertEqual(manager.step(), 1)
        self.assertEqual(manager.collect(w).tolist(), [[3, 4, 5], [6, 7, 8]])
        self.assertEqual((float(manager.get(one)), one.version), (9, 1))
        self.assertEqual(manager.shard(w), [(0, 0, 6)])
        manager.leave()
        with self.assertRaisesRegex(RuntimeError, "has left the job"):
            manager.get(w)
        array = w.data
        del manager, w, one, read
        gc.collect()
        self.assertEqual(array[1, 2], 8, "an array outlives its manager")
        job.wait_all()

    def test_of_tables_in_this_process_share_the_librarys_memory(self):
        job = self.server_of("tables")
        manager = self.manager(job)
        table = manager.register_table("t", 2, "add", scale=0.0)
        read = manager.get_rows(table, [3, 9, 3])
        self.assertIs(read, table.rows)
        self.assertEqual((read.shape, read.dtype, table.ids.tolist()), ((3, 2), numpy.float32, [3, 9, 3]))
        table.grad[...] = 1
        table.grad += 1
        manager.update_rows(table)
        manager.want_rows(table, range(9, 10))
        self.assertEqual(manager.step(), 1)
        self.assertEqual(manager.collect_rows(table, numpy.array([9, 3, 4])).tolist(), [[2, 2], [4, 4], [0, 0]])
        self.assertIs(read, table.rows, "of as many rows it is the same memory")
        self.assertEqual((table.version, table.grad.any()), (1, False))
        self.assertEqual(manager.get_rows(table, [3]).tolist(), [[4, 4]])
        self.assertEqual(read.tolist(), [[2, 2], [4, 4], [0, 0]], "an array stays what it was")
        manager.update_rows(table, [[1, 5]])
        manager.step()
        self.assertEqual(manager.get_rows(table, [3]).tolist(), [[5, 9]])
        for ids in [-1], [0.5], [[1]], ["a"]:
            with self.assertRaisesRegex(ValueError, "t: give ids as whole numbers"):
                manager.get_rows(table, ids)
        with self.assertRaisesRegex(ValueError, r"not below 2\^56"):
            manager.want_rows(table, [2**56])
        with self.assertRaisesRegex(ValueError, "1 rows of t were read, of 2 numbers"):
            manager.update_rows(table, [1, 2])
        with self.assertRaisesRegex(AttributeError, r"write table.grad\[...\]"):
            table.grad = numpy.ones((1, 2))
        kept = table.rows
        manager.leave()
        del manager, table, read
        gc.collect()
        self.assertEqual(kept.tolist(), [[5, 9]], "an array outlives its manager")
        job.wait_all()

    def straight(self, job, tls, awaited):
        """Trains until the library has logged these words, and for 20 steps more: what it has logged, and how many
        answers came through Kafka in these."""
        manager = self.manager(job, answers_tls=tls)
        w = manager.register("w", handler="add")
        manager.put(w, 0)

        def step():
            manager.get(w)
            manager.update(w, 1)
            manager.step()
            manager.collect(w)

        with self.assertLogs("millrace", "INFO") as log:
            end = time.monotonic() + topology.PATIENCE
            while not any(awaited in line for line in log.output):
                self.assertLess(time.monotonic(), end, log.output)
                step()
        before = self.broker.offsets(f"{job.name}.weights", 2, "latest")[0]
        for _ in range(20):
            step()
        after = self.broker.offsets(f"{job.name}.weights", 2, "latest")[0]
        self.assertEqual(float(w.data), manager.steps(), "each step counts once, however its answer comes")
        return [line for line in log.output if "straight" in line], after - before

    def test_get_straight_answers_by_tls_and_others_where_certificates_do_not_fit(self):
        for who in "server", "trainer", "stranger":
            topology.make_certificate(self.path / f"{who}.key", self.path / f"{who}.pem", "IP:127.0.0.1")

        def tls(own, other):
            return [self.path / f"{own}.pem", self.path / f"{own}.key", self.path / f"{other}.pem"]

        flags = zip(("cert", "key", "ca"), tls("server", "trainer"), strict=True)
        job = self.server_of("by-tls", flags=["--answers", "direct", *(
            word for name, file in flags for word in (f"--answers-tls-{name}", file))])
        said, through_kafka = self.straight(job, tls("trainer", "server"), "answers come straight from 127.0.0.1:")
        self.assertEqual(len(said), 1, said)
        self.assertLess(through_kafka, 20)
        self.assertRegex(job.log("server"), "serves answers to workers by gRPC at 127.0.0.1:[0-9]+, by TLS")
        self.assertEqual(job.log("server").count("gets its answers straight"), 1)
        for wrong, remedy in (
            (tls("stranger", "server"), "each side's must be signed by the authority that the other one was given"),
            (tls("trainer", "stranger"), "each side's must be signed by the authority that the other one was given"),
            (None, "it sends by TLS only: give --answers-tls-cert, --answers-tls-key and --answers-tls-ca"),
        ):
            said, through_kafka = self.straight(job, wrong, "no straight answers from 127.0.0.1:")
            self.assertEqual(len(said), 1, said)
            self.assertIn(remedy, said[0])
            self.assertIn("in Python answers_tls). They come through Kafka", said[0])
            self.assertGreaterEqual(through_kafka, 20)
        self.assertEqual(job.log("server").count("gets its answers straight"), 1)

    def test_that_are_wrong_are_exceptions(self):
        job = self.server_of("wrong")
        manager = self.manager(job)
        w = manager.register("w", 3)
        for values in 1.0, [1, 2], [[1, 2, 3]]:
            with self.assertRaisesRegex(ValueError, r"w has the shape \(3,\), not"):
                manager.put(w, values)
        with self.assertRaisesRegex(ValueError, "w: a NaN"):
            manager.put(w, [1, float("nan"), 3])
        with self.assertRaisesRegex(ValueError, "no handler addd"):
            manager.register("v", 3, "addd")
        with self.assertRaisesRegex(AttributeError, r"w|write param.grad\[...\]"):
            w.grad = numpy.ones(3)
        with self.assertRaisesRegex(RuntimeError, "no trainer has put it"):
            manager.get(w)
        other = self.manager(job)
        with self.assertRaisesRegex(RuntimeError, r"shape\[0\]: 3 -> 4"):
            other.put(other.register("w", 4), numpy.ones(4))
            other.steps()
        with self.assertRaisesRegex(ValueError, "no parameter of this manager"):
            other.put(w)
        for call in (lambda: manager.barrier("begin"), manager.members):
            with self.assertRaisesRegex(RuntimeError, "Barrier and Members ask MasterApp, and no master is given"):
                call()
        with self.assertRaisesRegex(TimeoutError, "MasterApp at 127.0.0.1:1"):
            millrace.ParameterManager("none", brokers=self.broker.address, timeout=0.3,
                                      master="127.0.0.1:1").barrier("begin")  # fmt: skip
        with self.assertRaisesRegex(ConnectionError, "127.0.0.1:1"):
            millrace.ParameterManager("none", brokers="127.0.0.1:1", timeout=0.3)
        tls = self.manager(job, answers_tls=(self.path / "no-cert.pem", self.path / "key.pem", self.path / "ca.pem"))
        tls.register("w", 3)
        with self.assertRaisesRegex((RuntimeError, ValueError), "no-cert.pem"):
            tls.steps()
        with self.assertRaisesRegex(TimeoutError, "does ServerApp run"):
            alone = millrace.ParameterManager("alone", brokers=self.broker.address, timeout=0.3)
            alone.register("w")
            alone.steps()

    def test_that_wait_are_ended_by_ctrl_c(self):
        for waits in ('millrace.ParameterManager("none", brokers="127.0.0.1:1")',
                      f'm = millrace.ParameterManager("alone", brokers="{self.broker.address}"); m.register("w"); '
                      'm.steps()'):  # fmt: skip
            process = subprocess.Popen(
                [sys.executable, "-c", f"import millrace\nprint('waits', flush=True)\n{waits}"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
            self.addCleanup(process.kill)
            process.stdout.readline()
            time.sleep(1)
            process.send_signal(signal.SIGINT)
            said = process.communicate(timeout=topology.PATIENCE)[1]
            self.assertIn("KeyboardInterrupt", said)


class ThreadsAndProcesses(TrainersHere):
    """Of trainers that share a manager. Each program is a process of its own, which may crash."""

    def program(self, text, job="none"):
        head = f"""
            import gc, os, signal, sys, threading, time
            import millrace

            def manager(timeout=60):
                return millrace.ParameterManager({job!r}, brokers={self.broker.address!r}, timeout=timeout)
            """
        process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(head) + textwrap.dedent(text)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    maxDiff = None

    def said(self, process, patience=topology.PATIENCE):
        out, errors = process.communicate(timeout=patience)
        self.assertEqual((process.returncode, errors), (0, ""), out)
        return out

    def test_threads_that_read_one_table_get_rows_of_their_own_ids(self):
        job = self.server_of("threads")
        self.assertEqual(self.said(self.program("""
            sys.setswitchinterval(1e-6)
            shared = manager()
            table = shared.register_table("t", 16, "add")
            shared.steps()

            def read(count):
                for _ in range(200):
                    for call in shared.get_rows, shared.collect_rows:
                        rows = call(table, range(count))
                        assert rows.shape == (count, 16), (rows.shape, count)
                        assert not rows.any()

            threads = [threading.Thread(target=read, args=[count]) for count in (1, 5_000, 20_000)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for count in 1, 5_000, 20_000:  # table.grad is still what update_rows sends
                shared.get_rows(table, range(count))
                table.grad[...] = 1
                shared.update_rows(table)
                shared.step()
            print(shared.collect_rows(table, [0, 1, 5_000]).tolist() == [[3] * 16, [2] * 16, [1] * 16])
            """, job.name)), "True\n")  # fmt: skip

    def test_a_forked_process_leaves_its_parents_manager_alone_and_may_open_its_own(self):
        job = self.server_of("forks")
        self.assertRegex(self.said(self.program("""
            shared = manager()
            w = shared.register("w", 3, "add")
            print(f"parent {os.getpid()}", flush=True)
            child = os.fork()
            if child == 0:
                for call in shared.steps, lambda: shared.get(w), lambda: shared.register("v"):
                    try:
                        call()
                    except RuntimeError as error:
                        print(error)
                del shared, w
                gc.collect()
                own = manager()
                own.register("w", 3, "add")
                print(own.steps())
            else:
                print("child ended with", os.waitpid(child, 0)[1], flush=True)
                shared.put(w, [1, 2, 3])
                print("parent made", shared.steps())
            """, job.name)), r"""parent (\d+)
(?:this ParameterManager belongs to the process \1: open one in this process
){3}0
child ended with 0
parent made 0
""")  # fmt: skip

    def test_a_process_that_is_forked_while_rows_are_sent_sends_none(self):
        self.assertRegex(self.said(self.program(f"""
            def rows():
                for i in range(20):
                    if i == 10:
                        print(f"parent {{os.getpid()}}", flush=True)
                        global child
                        child = os.fork()
                    yield {{"i": i}}

            try:
                said = millrace.send(rows(), "forked", {self.broker.address!r})
            except RuntimeError as error:
                said = error
            if child:  # one process after the other writes
                print("child ended with", os.waitpid(child, 0)[1])
            print(said)
            """)), r"""parent (\d+)
this writer of rows belongs to the process \1: open one in this process
child ended with 0
20
""")  # fmt: skip
        self.assertEqual(self.broker.offsets("forked", 1, "latest"), [20])

    def test_ctrl_c_ends_a_call_that_waits_for_that_of_another_thread(self):
        process = self.program("""
            shared = manager(timeout=0)
            shared.register("w")
            threading.Thread(target=shared.steps, daemon=True).start()  # no server will answer
            time.sleep(1)
            print("waits", flush=True)
            try:
                shared.steps()
            except KeyboardInterrupt:
                print("ended", flush=True)
                os._exit(0)
            """)
        process.stdout.readline()
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.said(process), "ended\n")

    def test_a_thread_that_waits_when_python_ends_does_not_abort_the_process(self):
        for waits in "shared.steps", 'lambda: millrace.ParameterManager("none", brokers="127.0.0.1:1")':
            self.assertEqual(self.said(self.program(f"""
                shared = manager(timeout=0)
                shared.register("w")
                threading.Thread(target={waits}, daemon=True).start()  # nobody will answer
                time.sleep(1)
                print("ends")
                """)), "ends\n")  # fmt: skip

    def test_a_table_whose_manager_is_gone_is_no_other_managers(self):
        # Each stands where the last one stood, if that is there no more.
        none, tables = types.SimpleNamespace(name="none"), []
        for _ in range(10):
            manager = self.manager(none)
            for table in tables:
                with self.assertRaisesRegex(ValueError, "no table of this manager"):
                    manager.want_rows(table, [1])
            tables.append(manager.register_table("t", 2))
            for table in tables[:-1]:
                with self.assertRaisesRegex(ValueError, "no table of this manager"):
                    manager.want_rows(table, [1])
            del manager
            gc.collect()


class PyTorch(test_trainers.OnABroker):
    """Debian's, which is for Debian's Python and its NumPy; the package is the one that is tested here."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        packages = cls.path / "packages"
        packages.mkdir()
        (packages / "millrace").symlink_to(pathlib.Path(millrace.__file__).parent)
        cls.trainer = ["env", f"PYTHONPATH={packages}", "/usr/bin/python3", EXAMPLES / "torch_trainer.py"]

    def assert_knows_other_rows(self, job):
        for trainer in "trainer0", "trainer1":
            (right,) = re.findall(r"^test rows: ([\d.]+)% are right$", job.log(trainer), re.M)
            self.assertGreater(float(right), 93)

    def test_models_end_in_the_same_bytes_whoever_is_killed_and_know_rows_that_they_have_not_seen(self):
        training = ("--optimizer", "adam", "--learning-rate", "0.003")
        calm = self.job("torch-calm", training).start()
        calm.wait_all()
        killed = self.job("torch-killed", training).start()
        self.disturb(killed)
        self.assertEqual(killed.weights.read_bytes(), calm.weights.read_bytes())
        self.assert_has_learnt(calm)
        self.assert_knows_other_rows(calm)
        self.assert_knows_other_rows(killed)


if __name__ == "__main__":
    topology.main()
