"""The programs on a machine without a Kafka: help, wrong usage, wrong input, waiting."""

import contextlib
import gzip
import os
import pathlib
import select
import signal
import socket
import subprocess
import tempfile
import time
import unittest

PROGRAMS = pathlib.Path(os.environ["MILLRACE_PROGRAMS"]).resolve()
ALL = ["CsvProducer", "TopicSource", "ServerApp", "WorkerApp", "MasterApp", "Watch"]


def run(program, *words, **options):
    return subprocess.run([PROGRAMS / program, *map(str, words)], text=True, timeout=30,
                          stdin=subprocess.DEVNULL, capture_output=True, check=False, **options)


def catches_interrupts(process):
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (signal.SIGINT - 1) & 1)


class UnreadPipe:
    """A pipe whose reader is there, and reads nothing."""

    def __enter__(self):
        self.reader, self.end = os.pipe()
        return self

    def __exit__(self, *_):
        os.close(self.reader)
        os.close(self.end)

    def fill(self):
        # By a description of its own: the program gets the pipe as pipes come.
        writer = os.open(f"/proc/self/fd/{self.end}", os.O_WRONLY | os.O_NONBLOCK)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writer, b"." * 4096)
        os.close(writer)

    def is_full(self):
        """Whether who writes to it waits."""
        writable = select.select([], [self.end], [], 0)[1]
        return not writable

    def text(self):
        """What stands in it."""
        is_there = select.select([self.reader], [], [], 0)[0]
        return os.read(self.reader, 1 << 20).decode() if is_there else ""


class Programs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="millrace-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        # Who has the port does not listen, and keeps others from it.
        nobody = socket.socket()
        self.addCleanup(nobody.close)
        nobody.bind(("127.0.0.1", 0))
        self.nobody = f"127.0.0.1:{nobody.getsockname()[1]}"

    def csv(self, text, name="rows.csv"):
        path = self.folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def assert_one_line(self, result, code, *parts):
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)

    def produce(self, path, *words):
        return run("CsvProducer", "--brokers", self.nobody, "--broker-timeout", "1",
                   "--input", path, "--label", "y", "--numeric", "x", *words, cwd=self.folder)

    def test_help_teaches_with_examples_and_exit_codes(self):
        for program in ALL:
            result = run(program, "--help")
            self.assertEqual(result.returncode, 0)
            for part in ("Examples", "Exit codes", "--brokers", "--kafka", "[localhost:9092]"):
                self.assertIn(part, result.stdout, program)

    def test_flags_without_effect_are_not_shown_but_may_be_given(self):
        for words in (["Watch"], ["MasterApp", "status"]):
            self.assertNotIn("--workers", run(*words, "--help").stdout)
            result = run(*words, "--workers", "3", "--brokers", self.nobody, "--broker-timeout", "1")
            self.assertEqual(result.returncode, 1)
            self.assertIn(self.nobody, result.stderr)

    def test_the_version_is_told(self):
        for program in [*ALL, "ProcessShim"]:
            self.assertRegex(run(program, "--version").stdout, r"^Millrace \d+\.\d+\.\d+( \([0-9a-f]+(-dirty)?\))?\n$")

    def test_the_shim_says_what_it_is_to_whoever_calls_it_by_hand(self):
        self.assertIn("MasterApp starts one", run("ProcessShim", "--help").stdout)
        for words in ([], [self.folder, "100"], [self.folder, "soon", "true"], [self.folder, "-1", "true"]):
            self.assert_one_line(run("ProcessShim", *words), 2, "ProcessShim --help")

    def test_the_shim_runs_a_command_once_for_each_folder(self):
        folder = self.folder / "worker-0" / "1"
        folder.mkdir(parents=True)
        for output in ("once\n", ""):
            result = run("ProcessShim", folder, "100", "sh", "-c", "echo once; exit 3")
            self.assertEqual((result.returncode, result.stdout), (0, output), result.stderr)
            self.assertEqual((folder / "end").read_text(), "cause: EXITED\ncode: 3\n")

    def test_an_unknown_flag_is_wrong_usage(self):
        for program in ALL:
            self.assert_one_line(run(program, "--no-such-flag", "x"), 2, f"{program}: ",
                                 "there is no flag --no-such-flag (", f"{program} --help")

    def test_a_mistyped_flag_or_value_is_answered_by_what_was_meant(self):
        self.assert_one_line(run("ServerApp", "--bach-rows=9"), 2,
                             "ServerApp: there is no flag --bach-rows; did you mean --batch-rows?")
        self.assert_one_line(run("Watch", "--sumary", "x"), 2, "did you mean --summary?")
        self.assert_one_line(run("ServerApp", "--optimizer", "adagard"), 2,
                             "ServerApp: --optimizer: 'adagard' is not", "did you mean adagrad?")

    def test_an_online_learner_with_an_optimizer_is_wrong_usage(self):
        self.assert_one_line(run("ServerApp", "--update", "online", "--optimizer", "sgd"), 2,
                             "ServerApp: ", "(--update) online: ", "(--optimizer)", "--update gradient")

    def test_a_flag_of_another_program_is_called_so(self):
        self.assert_one_line(run("WorkerApp", "--batch-rows", "9"), 2,
                             "WorkerApp: there is no flag --batch-rows in this program: it is a flag of ServerApp")

    def test_a_flag_without_its_value_and_a_word_without_a_flag_are_wrong_usage(self):
        for program in ALL:
            self.assert_one_line(run(program, "--job"), 2, f"{program}: ", "--job")
            self.assert_one_line(run(program, "flights"), 2, f"{program}: ", "'flights' belongs to no flag")
        self.assert_one_line(run("MasterApp", "statsu"), 2, "'statsu' belongs to no flag", "did you mean status?",
                             "the commands status, stop, resize, move, reshard")

    def test_a_job_name_that_is_a_folder_above_is_refused(self):
        for program in ALL:
            self.assert_one_line(run(program, "--job", ".."), 2, f"{program}: job name (--job) '..'")
            self.assert_one_line(run(program, "--job", "a.layout-1"), 2, "topics of this name are those of another job")

    def test_a_test_file_that_is_not_there_ends_a_server_before_it_waits(self):
        result = run("ServerApp", "--brokers", self.nobody, "--test", self.folder / "none.csv")
        self.assert_one_line(result, 1, "ServerApp: ", "none.csv", "No such file")
        result = run("ServerApp", "--brokers", self.nobody, "--test", self.csv("", "empty.csv"))
        self.assert_one_line(result, 1, "empty.csv", "empty")

    def master(self, *words):
        return run("MasterApp", "--brokers", self.nobody, "--broker-timeout", "1", "--job", "j", *words,
                   cwd=self.folder)

    def test_a_master_says_what_it_cannot_run_before_it_waits(self):
        self.assert_one_line(self.master("--input", "none.csv"), 1, "--input: there is no file none.csv")
        self.assert_one_line(self.master("--test", "none.csv"), 1,
                             f"--test: there is no file none.csv in the folder {self.folder}")
        self.assert_one_line(self.master("--grace-period", "nan"), 2,
                             "--grace-period: nan: give a number from 0 to 86400")
        self.assert_one_line(self.master("--input", "-"), 2, "cannot read standard input")
        self.assert_one_line(self.master("--shards", "4", "--server-processes", "5"), 2,
                             "--server-processes 5: give at most as many as --shards (4)")
        self.assert_one_line(self.master("--server-processes", "0", "--worker-processes", "0"), 2,
                             "no process is to run")
        self.assert_one_line(self.master("--worker-command", "no-such-program x"), 1,
                             "--worker-command: there is no program no-such-program in PATH")
        self.assert_one_line(self.master("--worker-command", "echo 'x"), 2, "a ' is not closed")
        self.assert_one_line(self.master("--server-program", "no-such-program"), 1,
                             "--server-program: there is no program no-such-program in PATH")
        self.assert_one_line(self.master("--server-processes", "0", "--server-program", "x"), 2,
                             "--server-program has no effect")
        self.assert_one_line(self.master("--shards", "2", "--slots", "2"), 2, "so many processes are needed")
        self.assert_one_line(self.master("--data-dir", "x"), 2, "it is a flag of ServerApp")
        self.assert_one_line(self.master("--master-address", "here"), 2, "--master-address here: a HOST:PORT")
        (self.folder / "job.textproto").write_text('worker { evaluation_log: "w.csv" }')
        self.assert_one_line(self.master("--config", "job.textproto"), 2, "put {rank} into its name")
        self.assert_one_line(self.master("--worker-evaluation-log", "w.csv"), 2, "put {rank} into its name")
        # As far as the broker.
        self.assertIn("no Kafka broker answered", self.master().stderr)

    def test_a_master_says_which_flag_contradicts_a_topology(self):
        file = self.folder / "t.textproto"
        servers = ('server { id: 0 ip: "127.0.0.1" port: 7101 threads: 2 }\n'
                   "server_group { id: 0 neighbor: 0 }\n"
                   "worker { global_id: 0 local_id: 0 group_id: 0 threads: 3 }\n")
        for text, words, what in [
                (servers, ["--shards", "3"], ["--shards 3 contradicts the topology (--topology)", "2 threads"]),
                (servers, ["--workers", "2"], ["--workers 2 contradicts the topology", "3 threads"]),
                (servers, ["--server-processes", "2"], ["--server-processes 2 contradicts", "1 entries server"]),
                (servers, ["--worker-processes", "2"], ["--worker-processes 2 contradicts", "1 entries worker"]),
                (servers, ["--distribution-strategy", "AllReduce"], ["AllReduce contradicts", "it has servers"]),
                (servers, ["--launcher", "kubernetes"], ["leave it or --launcher kubernetes out"]),
                (servers, ["--model", "external", "--worker-command", "true"], ["give an entry worker for each"]),
                (servers + 'server { id: 0 ip: "a" port: 1 }', [], ["t.textproto:4:1: server 0 is there twice"]),
                (servers + "worker {", [], ["--topology: ", "t.textproto:4:9: "]),
                (servers.replace("group_id: 0", "group_id: 1"), [], ["t.textproto:3:1: worker 0 has group_id 1"]),
                (servers.replace("127.0.0.1", "10.0.0.1"), ["--replicas", "1"], ["other machines reach"]),
                (servers.replace("threads: 2", "threads: 1 neighbor: 1 sync_interval: 5")
                 + 'server { id: 1 ip: "a" port: 1 }\nserver_group { id: 1 neighbor: 1 }\n'
                 + "worker { global_id: 1 local_id: 0 group_id: 1 }", [],
                 ["Worker-Replicated-Server", "number the servers group by group"]),
                ("worker { global_id: 0 local_id: 0 }\nworker { global_id: 1 local_id: 1 threads: 2 }", [],
                 ["its entries worker have 1, 2 threads", "equally many logical workers"]),
                ("worker { global_id: 0 local_id: 0 }", [], ["give --master-address"]),
                ("worker { global_id: 0 local_id: 0 }", ["--shards", "2"], ["--shards 2 contradicts"])]:  # fmt: skip
            file.write_text(text)
            self.assert_one_line(self.master("--topology", file, *words), 2, *what)
        self.assert_one_line(self.master("--topology", "none.textproto"), 1, "--topology: none.textproto: ")
        file.write_text(servers)
        self.assertIn("no Kafka broker answered", self.master("--topology", file).stderr)

    def test_a_master_says_what_cannot_train_by_all_reduce(self):
        address = ("--master-address", "127.0.0.1:1")
        for words, what in [((), "give --master-address"),
                            ((*address, "--server-processes", "1"), "leave out --server-processes"),
                            ((*address, "--worker-command", "true"), "--worker-command runs another program"),
                            ((*address, "--launcher", "kubernetes"), "leave out --launcher kubernetes"),
                            (("--master-address", "0.0.0.0:1"), "which is no host"),
                            ((*address, "--shards", "2"), "leave out --shards")]:  # fmt: skip
            result = run("MasterApp", "--brokers", self.nobody, "--job", "j", "--distribution-strategy", "AllReduce",
                         *words)  # fmt: skip
            self.assert_one_line(result, 2, "--distribution-strategy AllReduce: ", what)

    def test_a_job_that_trains_by_all_reduce_has_no_server(self):
        result = run("ServerApp", "--brokers", self.nobody, "--job", "j", "--distribution-strategy", "AllReduce")
        self.assert_one_line(result, 2, "such a job has no servers")

    def test_a_worker_that_trains_by_all_reduce_needs_the_master(self):
        file = self.folder / "job.textproto"
        file.write_text("training { distribution_strategy: ALL_REDUCE }")
        result = run("WorkerApp", "--brokers", self.nobody, "--broker-timeout", "1", "--job", "j", "--config", file)
        self.assert_one_line(result, 2, "worker-N.textproto")

    def test_who_sends_or_learns_from_rows_has_nothing_to_do_where_trainers_are_ones_own(self):
        file = self.folder / "job.textproto"
        file.write_text('training { model: EXTERNAL } features { label: "y" }')
        rows = self.csv("x,y\na,1\nb,2\n")
        for program, words in (("WorkerApp", []), ("CsvProducer", ["--input", rows]),
                               ("TopicSource", ["--topic", "t"])):  # fmt: skip
            result = run(program, "--brokers", self.nobody, "--job", "j", "--config", file, *words)
            self.assert_one_line(result, 2, "model (--model) is external: ", f"leave {program} out")

    def test_a_server_says_what_trainers_of_ones_own_do_not_have(self):
        for words, what in (
            (["--test", self.csv("x,y\n")], "test_file (--test) does not go together"),
            (["--weights-from-workers"], "weights_from_workers (--weights-from-workers) does not go together"),
            (["--update", "weight-change"], "leave out --update"),
            (["--compress", "bf16"], "leave out --compress"),
            (["--schedule", "buffer"], "leave out --schedule"),
        ):
            result = run("ServerApp", "--brokers", self.nobody, "--job", "j", "--model", "external", *words)
            self.assert_one_line(result, 2, "--model external", what)

    def test_a_master_runs_trainers_of_ones_own_by_their_command_only(self):
        result = self.master("--model", "external")
        self.assert_one_line(result, 2, "--model external: no WorkerApp can train it", "--worker-command",
                             "--worker-processes 0")  # fmt: skip
        result = self.master("--model", "external", "--worker-command", "true", "--input", self.csv("x,y\na,1\n"))
        self.assert_one_line(result, 2, "--model external: ", "leave out --input")
        for workers, words in (("4", "it waits for those that no process is"), ("1", "no two may be the same")):
            result = self.master("--model", "external", "--worker-command", "true", "--workers", workers)
            self.assertIn(f"the job has {workers} trainers (--workers), and 2 processes run --worker-command: {words}",
                          result.stderr)  # fmt: skip

    def test_a_master_says_what_it_cannot_run_in_a_cluster(self):
        self.assert_one_line(self.master("--image", "x"), 2, "need --launcher kubernetes")
        self.assert_one_line(self.master("--launcher", "cloud"), 2, "--launcher")

        def pods(*words):
            return self.master("--launcher", "kubernetes", "--kubernetes-account", self.folder, *words)

        self.assert_one_line(pods("--run-dir", "x"), 2, "--run-dir is that of processes on this machine")
        self.assert_one_line(pods("--input", "-"), 2, "cannot read standard input")
        self.assert_one_line(pods(), 2, "runs in no Kubernetes cluster")
        self.assert_one_line(pods("--kubernetes-api", "http://10.0.0.1"), 2, "without TLS")
        api = ["--kubernetes-api", "http://127.0.0.1:1"]
        self.assert_one_line(pods(*api), 2, "give --kubernetes-namespace")
        self.assert_one_line(pods(*api, "--pod-template", "{group}.json"), 1, "--pod-template server.json")
        api += ["--kubernetes-namespace", "training"]
        self.assert_one_line(pods(*api), 2, "give --image")
        (self.folder / "server.json").write_text("[]")
        (self.folder / "worker.json").write_text("{}")
        self.assert_one_line(pods(*api, "--image", "x", "--pod-template", "{group}.json"), 2,
                             "that of the group server is no JSON object")

    def test_a_run_folder_of_another_job_is_not_used(self):
        self.master("--run-dir", "run")
        result = run("MasterApp", "--brokers", self.nobody, "--broker-timeout", "1", "--job", "other",
                     "--run-dir", "run", cwd=self.folder)
        self.assert_one_line(result, 1, "MasterApp: ", str(self.folder / "run"))

    def test_the_masters_commands_have_help_and_do_not_wait_for_ever(self):
        for command in "status", "stop":
            for part in ("Examples", "Exit codes", "--brokers"):
                self.assertIn(part, run("MasterApp", command, "--help").stdout)
            self.assert_one_line(run("MasterApp", command, "--no-such-flag", "x"), 2,
                                 f"MasterApp {command}: there is no flag --no-such-flag (")
            result = run("MasterApp", command, "--brokers", self.nobody, "--broker-timeout", "1")
            self.assertEqual(result.returncode, 1)
            self.assertIn(f"MasterApp {command}: no Kafka broker answered at {self.nobody}", result.stderr)

    def test_an_unknown_field_is_wrong_usage_with_line_and_column(self):
        config = self.csv('name: "x"\nwrokers: 4\n', "job.textproto")
        for program in ALL:
            self.assert_one_line(run(program, "--config", config), 2, f"{config}:2:", "wrokers")

    def test_a_missing_input_ends_at_once(self):
        self.assert_one_line(self.produce(self.folder / "none.csv"), 1, "none.csv", "No such file")

    def test_an_empty_input_ends_at_once(self):
        self.assert_one_line(self.produce(self.csv("")), 1, "rows.csv", "empty")
        self.assert_one_line(self.produce(self.csv("x,y\n")), 1, "rows.csv", "no rows")

    def test_a_missing_column_ends_at_once_and_names_those_there_are(self):
        self.assert_one_line(self.produce(self.csv("a,y\n1,no\n")), 2, '"x"', "columns are: a, y", "rows.csv")

    def test_columns_of_crosses_and_bins_are_looked_up_before_a_broker_is(self):
        rows = self.csv("x,hour,y\n1,2,no\n")
        self.assert_one_line(self.produce(rows, "--categorical", "y2,x*houre"), 2, '"y2"', "columns are: x, hour, y")
        self.assert_one_line(self.produce(rows, "--categorical", "x*houre"), 2, "--categorical",
                             'the cross "x*houre"', 'did you mean "hour"?')
        self.assert_one_line(self.produce(rows, "--bins", "hours:8"), 2, 'did you mean "hour"?')
        self.assert_one_line(self.produce(rows, "--bins", "hour:1"), 2, "asks for 1 bins", "give 2 to 256")
        self.assert_one_line(self.produce(rows, "--bins", "all", "--bins-of", self.folder / "none"), 1, "none")
        # As far as the broker, with classes and without.
        for words in ["--classes", "no,yes"], []:
            self.assertIn("no Kafka broker answered",
                          self.produce(rows, "--bins", "all,hour:4", *words).stderr)

    def source(self, *words):
        return run("TopicSource", "--brokers", self.nobody, "--broker-timeout", "1", *words)

    def test_a_source_without_topic_columns_or_time_is_wrong_usage(self):
        features = ["--label", "y", "--numeric", "x", "--classes", "no,yes"]
        self.assert_one_line(self.source(*features), 2, "give --topic NAME")
        topic = ["--topic", "clicks", *features]
        self.assert_one_line(self.source(*topic, "--format", "csv"), 2, "--columns A,B,...")
        self.assert_one_line(self.source(*topic, "--columns", "x,y"), 2, "needs --format csv")
        csv = [*topic, "--format", "csv", "--columns"]
        self.assert_one_line(self.source(*csv, "a,y"), 2, '--columns has no column "x"', "a, y")
        self.assert_one_line(self.source(*csv, "x,y,x"), 2, "names 'x' twice")
        self.assert_one_line(self.source(*csv, "x,y", "--delimiter", "ab"), 2, "--delimiter")
        avro = [*topic, "--format", "avro"]
        self.assert_one_line(self.source(*avro), 2, "--schema-registry URL", "--avro-schema FILE")
        registry = [*avro, "--schema-registry", "http://localhost:8081"]
        self.assert_one_line(self.source(*registry, "--avro-schema", "x"), 2, "--schema-registry URL")
        self.assert_one_line(self.source(*registry, "--columns", "x,y"), 2, "Avro has the names")
        self.assert_one_line(self.source(*topic, *registry[-2:]), 2, "need --format avro")
        self.assert_one_line(self.source(*topic, "--schema-registry-ca", "x"), 2, "need --schema-registry")
        self.assert_one_line(self.source(*avro, "--schema-registry", "localhost"), 2, "give a URL such as")
        none = self.folder / "none"
        self.assert_one_line(self.source(*avro, "--avro-schema", none), 1, "--avro-schema", "none")
        (self.folder / "int.avsc").write_text('"int"')
        self.assert_one_line(self.source(*avro, "--avro-schema", self.folder / "int.avsc"), 1,
                             "int.avsc", "a row is a record")
        self.assert_one_line(self.source(*topic, "--from", "yesterday"), 2, "--from: give beginning")
        self.assert_one_line(self.source(*topic, "--format", "xml"), 2, "--format")
        for own in "j.job", "j.plan":
            self.assert_one_line(self.source("--job", "j", *topic[2:], "--topic", own), 2,
                                 "is a topic of the job itself")
        # As far as the broker.
        for words in (topic, [*csv, "x,y"], registry, [*topic, "--from", "2013-01-31T10:00:00Z"]):
            self.assertIn("no Kafka broker answered", self.source(*words).stderr)

    def test_labels_from_another_topic_need_a_key_and_a_window(self):
        topic = ["--topic", "shown", "--label", "y", "--numeric", "x", "--classes", "no,yes"]
        for words in (["--join-key", "id"], ["--join-window", "1"], ["--unmatched-label", "no"],
                      ["--label-columns", "id,y"], ["--join-memory", "64"]):
            self.assert_one_line(self.source(*topic, *words), 2, "need --labels-from TOPIC")
        labels = [*topic, "--labels-from", "clicked"]
        self.assert_one_line(self.source(*labels), 2, "needs --join-key COLUMN", "--join-window SECONDS")
        window = ["--join-window", "60"]
        self.assert_one_line(self.source(*labels, *window, "--join-key", "y"), 2, "which is the label")
        for flag in "--join-window", "--transaction-interval":
            self.assert_one_line(self.source(*labels, flag, "nan"), 2, flag, "nan: give a number from")
        whole = [*labels, *window, "--join-key", "id"]
        self.assert_one_line(self.source(*topic, "--labels-from", "shown", *window, "--join-key", "id"),
                             2, "names the topic of the rows")
        self.assert_one_line(self.source("--job", "shop", *topic, "--labels-from", "shop.job", *window,
                                         "--join-key", "id"), 2, "is a topic of the job itself")
        self.assert_one_line(self.source(*whole, "--label-columns", "id,y"), 2, "needs --format csv")
        csv = [*whole, "--format", "csv", "--columns"]
        self.assert_one_line(self.source(*csv, "x,y"), 2, '--columns has no column "id"')
        self.assert_one_line(self.source(*csv, "id,x", "--label-columns", "id,z"), 2,
                             '--label-columns has no column "y"')
        (self.folder / "row.avsc").write_text(
            '{"type": "record", "name": "r", "fields": [{"name": "x", "type": "int"}]}')
        self.assert_one_line(self.source(*whole, "--format", "avro", "--avro-schema",
                                         self.folder / "row.avsc"), 2, "give --schema-registry URL")
        # As far as the broker.
        for words in (whole, [*csv, "id,x"], [*csv, "id,x", "--label-columns", "z,y,id"]):
            self.assertIn("no Kafka broker answered", self.source(*words).stderr)

    def test_what_separates_the_fields_is_found_or_told(self):
        for text, found in (("x\ty\n1\tno\n2\tyes\n", "tabs"), ("x;y\n1,5;no\n2;yes\n", "semicolons"),
                            ("x|y\n1|no\n2|yes\n", "pipes")):
            said = self.produce(self.csv(text), "--decimal-comma").stderr
            self.assertIn(f"rows.csv: 2 columns separated by {found}, as the header has most often", said)
            self.assertIn("no Kafka broker answered", said)
        said = self.produce(self.csv("x^y\n1^no\n2^yes\n"), "--delimiter", "^").stderr
        self.assertIn('2 columns separated by "^"', said)
        self.assert_one_line(self.produce(self.csv("x;y\n1;no\n"), "--delimiter", ","), 2,
                             "separated by semicolons?", "--delimiter")
        self.assert_one_line(self.produce(self.csv("x;y\n1;no\n"), "--delimiter", '"'), 2, "delimiter (--delimiter)",
                             "separates no fields")

    def test_compressed_files_are_read_and_truncated_ones_are_named(self):
        packed = gzip.compress(b"x,y\n1,no\n2,yes\n")
        path = self.folder / "rows.csv.gz"
        path.write_bytes(packed)
        self.assertIn("2 columns separated by commas; compressed by gzip", self.produce(path).stderr)
        path.write_bytes(packed[:12])
        self.assert_one_line(self.produce(path), 1, "rows.csv.gz is truncated", "no end after byte 12")

    def test_latin1_is_named_in_the_error_and_read_when_told(self):
        path = self.folder / "rows.csv"
        path.write_bytes("x,y,prénom\n1,no,Zoé\n2,yes,René\n".encode("latin1"))
        self.assert_one_line(self.produce(path), 1, "not valid UTF-8", "give --encoding latin1")
        said = self.produce(path, "--encoding", "latin1", "--categorical", "prénom").stderr
        self.assertIn("3 columns separated by commas; in latin-1", said)
        self.assertIn("no Kafka broker answered", said)

    def test_any_column_can_be_named(self):
        path = self.csv('x,y,"a,b",a*b,"say ""so""",k=v\n1,no,2,3,4,5\n2,yes,3,4,5,6\n')
        said = self.produce(path, "--numeric", 'x,"a,b",k=v', "--categorical", '"a*b","say ""so"""*"a*b"').stderr
        self.assertIn("no Kafka broker answered", said)
        self.assert_one_line(self.produce(path, "--numeric", '"a,c"'), 2, 'no column "a,c"', 'did you mean "a,b"?')
        self.assert_one_line(self.produce(path, "--numeric", '"a,b'), 2, "--numeric", "quote that is not closed")

    def test_a_file_is_described_by_a_job_file_that_works_once_the_label_is_named(self):
        rows = "".join(f"{i};{i * 7 % 13},5;{'ab'[i % 2]};{['no', 'yes'][i % 3 > 0]}\n" for i in range(60))
        path = self.csv(f"row;size;kind;late\n{rows}")
        draft = run("CsvProducer", "--describe", path)
        self.assertEqual(draft.returncode, 0, draft.stderr)
        self.assertIn('# label: "late"', draft.stdout)
        job = self.csv(draft.stdout, "job.textproto")
        words = ["--config", job, "--brokers", self.nobody, "--broker-timeout", "1"]
        self.assert_one_line(run("CsvProducer", *words), 2, "no label column is named")
        for label in "late", "kind":
            said = run("CsvProducer", *words, "--label", label).stderr
            self.assertIn("4 columns separated by semicolons; numbers with decimal commas", said)
            self.assertIn("no Kafka broker answered", said)
        self.csv(run("CsvProducer", "--describe", path, "--label", "late").stdout, "job.textproto")
        self.assertIn("no Kafka broker answered", run("CsvProducer", *words).stderr)
        self.assert_one_line(run("CsvProducer", "--describe", path, "--label", "lat"), 1, 'did you mean "late"?')
        self.assert_one_line(run("CsvProducer", "--describe", self.folder / "none.csv"), 1, "none.csv", "No such file")

    def test_only_a_file_can_be_followed(self):
        path = self.csv("x,y\n1,no\n2,yes\n")
        self.assertIn("following ", self.produce(path, "--follow").stderr)
        self.assert_one_line(self.produce(path, "--follow", "--epochs", "2"), 2, "follow (--follow)", "epochs")
        self.assert_one_line(self.produce("-", "--follow"), 2, "follow (--follow)", "standard input")
        (self.folder / "rows.csv.gz").write_bytes(gzip.compress(b"x,y\n1,no\n"))
        self.assert_one_line(self.produce(self.folder / "rows.csv.gz", "--follow"), 1, "cannot be followed")

    def test_a_label_among_the_features_is_refused_with_the_flag(self):
        self.assert_one_line(self.produce(self.csv("x,y\n1,no\n"), "--numeric", "x,y"), 2,
                             'numeric (--numeric) names the column "y", which is the label')

    def test_a_configuration_that_cannot_be_read_says_why(self):
        self.assert_one_line(run("ServerApp", "--config", self.folder / "none"), 1,
                             "none cannot be read: No such file or directory")
        self.assert_one_line(run("ServerApp", "--config", "/dev/zero"), 1,
                             "the configuration /dev/zero cannot be read: it has more than")

    def test_a_snapshot_folder_that_cannot_be_written_ends_a_server_at_once(self):
        result = run("ServerApp", "--brokers", self.nobody, "--snapshot-dir", "/dev/null/snapshots")
        self.assert_one_line(result, 1, "/dev/null/snapshots cannot be written", "folder")

    def test_paths_that_are_written_late_are_checked_before_a_server_waits(self):
        nodir = self.folder / "nodir" / "x.npy"
        for words, parts in (
                (["--weights-file", nodir], ["x.npy cannot be written: there is no folder"]),
                (["--test", self.csv("x,y\n1,no\n"), "--evaluation-log", nodir], ["x.npy cannot be written"]),
                (["--data-dir", "/dev/null/data"], ["/dev/null/data (--data-dir)", "Not a directory"])):
            result = run("ServerApp", "--brokers", self.nobody, *words, cwd=self.folder)
            self.assert_one_line(result, 1, "ServerApp: ", *parts)
        # A process without shard 0 ignores the weights file.
        result = run("ServerApp", "--brokers", self.nobody, "--broker-timeout", "1", "--shards", "2",
                     "--server-ids", "1", "--weights-file", nodir, cwd=self.folder)
        self.assertIn("no Kafka broker answered", result.stderr)
        self.assert_one_line(run("WorkerApp", "--brokers", self.nobody, "--data-dir", "/dev/null/data"), 1,
                             "WorkerApp: /dev/null/data (--data-dir)")

    def test_help_says_that_a_clean_stop_writes_the_weights(self):
        self.assertRegex(run("ServerApp", "--help").stdout, r"--weights-file[^-]*at\s+the\s+end,\s+and\s+on\s+a\s+clean\s+stop")

    def test_no_broker_ends_with_the_timeout_and_says_which(self):
        path = self.csv("x,y\n1,no\n2,yes\n")
        for result in (self.produce(path),
                       run("ServerApp", "--brokers", self.nobody, "--broker-timeout", "1"),
                       run("WorkerApp", "--brokers", self.nobody, "--broker-timeout", "1")):
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn(f"no Kafka broker answered at {self.nobody} (--brokers) for 1 s", result.stderr)

    def test_who_waits_for_a_broker_names_the_flag_that_says_where_it_is(self):
        for program in ("ServerApp", "WorkerApp"):
            process = subprocess.Popen([PROGRAMS / program, "--brokers", self.nobody], stderr=subprocess.PIPE,
                                       text=True)
            self.addCleanup(process.stderr.close)
            self.addCleanup(process.kill)
            while "waiting" not in (line := process.stderr.readline()):
                self.assertTrue(line)
            self.assertIn(f"waiting for Kafka at {self.nobody} (--brokers) for 5 s", line)

    def test_a_signal_ends_the_wait_for_a_broker(self):
        for program in ("ServerApp", "WorkerApp"):
            for sig in (signal.SIGINT, signal.SIGTERM):
                process = subprocess.Popen([PROGRAMS / program, "--brokers", self.nobody],
                                           stderr=subprocess.PIPE, text=True)
                self.addCleanup(process.stderr.close)
                self.addCleanup(process.kill)
                self.assertIn(self.nobody, process.stderr.readline())  # so it waits
                process.send_signal(sig)
                self.assertEqual(process.wait(timeout=60), 130)

    def test_no_file_takes_the_place_of_a_standard_stream_that_is_closed(self):
        label = ["--label", "x", "--classes", "a,b", "--numeric", "y"]
        for program, words in (("ServerApp", []), ("WorkerApp", []), ("Watch", []),
                               ("CsvProducer", ["--input", self.csv("x,y\na,1\nb,2\n"), *label]),
                               ("TopicSource", ["--topic", "rows", *label]),
                               ("MasterApp", ["--input", self.csv("x,y\na,1\nb,2\n")]),
                               ("Predictor", ["--follow", "--listen", "127.0.0.1:0"])):  # fmt: skip
            with self.subTest(program):
                process = subprocess.Popen([PROGRAMS / program, *map(str, words), "--brokers", self.nobody],
                                           cwd=self.folder, preexec_fn=lambda: os.closerange(0, 3))
                self.addCleanup(process.wait)
                self.addCleanup(process.kill)
                while not catches_interrupts(process):
                    self.assertIsNone(process.poll())
                    time.sleep(0.05)
                self.assertEqual([os.readlink(f"/proc/{process.pid}/fd/{fd}") for fd in range(3)],
                                 ["/dev/null"] * 3)
                process.send_signal(signal.SIGINT)
                self.assertEqual(process.wait(timeout=20), 130)

    def assert_one_signal_ends(self, words, is_ready, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        process = subprocess.Popen([*map(str, words)], cwd=self.folder, stdout=stdout, stderr=stderr)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        deadline = time.monotonic() + 60
        while not (catches_interrupts(process) and is_ready()):
            self.assertIsNone(process.poll())
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=20), 130)

    def test_one_signal_ends_who_writes_for_a_reader_that_has_stopped_reading(self):
        model = pathlib.Path(__file__).resolve().parent / "model"
        rows = self.csv("distance,temp,carrier\n" + "1400,39.02,UA\n" * 20_000)
        with UnreadPipe() as pipe:  # it blocks in the middle of its rows
            self.assert_one_signal_ends([PROGRAMS / "Predictor", "--model", model, "--input", rows, "--output", "-"],
                                        pipe.is_full, pipe.end)
        with UnreadPipe() as pipe:  # its last words have no room
            pipe.fill()
            self.assert_one_signal_ends([PROGRAMS / "Watch", "--brokers", self.nobody], pipe.is_full, pipe.end)

    def test_one_signal_ends_who_logs_for_a_reader_that_has_stopped_reading(self):
        source = ["--topic", "rows", "--label", "x", "--classes", "a,b", "--numeric", "y"]
        for program, words in (("WorkerApp", []), ("TopicSource", source)):
            with self.subTest(program), UnreadPipe() as pipe:
                self.assert_one_signal_ends([PROGRAMS / program, *words, "--brokers", self.nobody,
                                             "--kafka", "debug=all"], pipe.is_full, stderr=pipe.end)

    def test_log_lines_wait_for_a_reader_that_is_slow(self):
        with UnreadPipe() as pipe:
            process = subprocess.Popen([PROGRAMS / "WorkerApp", "--brokers", self.nobody, "--kafka", "debug=all"],
                                       stderr=pipe.end)
            self.addCleanup(process.kill)
            lines = b""
            for _ in range(5):
                while not pipe.is_full():
                    time.sleep(0.02)
                lines += os.read(pipe.reader, 1 << 20)
            for line in lines.split(b"\n")[:-1]:
                self.assertRegex(line, rb"^(kafka: |waiting for Kafka)")

    def test_what_is_read_late_is_lost_by_no_signal(self):
        with UnreadPipe() as pipe:
            process = subprocess.Popen([PROGRAMS / "Watch", "--brokers", self.nobody, "--json"],
                                       stdout=pipe.end, stderr=subprocess.DEVNULL)
            self.addCleanup(process.kill)
            while not catches_interrupts(process):
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(timeout=20), 130)
            self.assertTrue(pipe.text().startswith("{"))

    def test_who_asks_too_early_for_a_snapshot_by_a_signal_ends_no_server(self):
        process = subprocess.Popen([PROGRAMS / "ServerApp", "--brokers", self.nobody],
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        self.assertIn(self.nobody, process.stderr.readline())  # so it waits
        process.send_signal(signal.SIGUSR1)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=60), 130)

    def test_a_password_is_in_no_output(self):
        secret = "correct-horse-battery"
        settings = ["--kafka", "security.protocol=SASL_PLAINTEXT", "--kafka", "sasl.mechanisms=PLAIN",
                    "--kafka", "sasl.username=me", "--kafka", f"sasl.password={secret}"]  # fmt: skip
        for extra in ([], ["--kafka", "debug=all"], ["--kafka", "sasl.pasword=" + secret]):
            result = run("ServerApp", "--brokers", self.nobody, "--broker-timeout", "1", *settings,
                         *extra)
            self.assertNotEqual(result.returncode, 0)
            self.assertNotIn(secret, result.stderr + result.stdout)

    def test_an_unknown_kafka_setting_is_named(self):
        result = run("ServerApp", "--kafka", "no.such.setting=1", "--broker-timeout", "1")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("no.such.setting", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
