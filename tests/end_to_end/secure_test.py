"""A job on a broker with TLS, SASL and the authorizer: the ACLs of docs/security.md suffice, and
none can be spared."""

import concurrent.futures
import json
import pathlib
import shlex
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import topology  # noqa: E402

USERS = ["producer", "server", "worker", "watch", "predictor"]
SOURCE = "source"  # TopicSource's, in jobs that have no producer
SCORER = "scorer"  # a Predictor from topic to topic; belongs to no job
MASTER = "master"  # MasterApp's, which has a test of its own
CREATE_ACLS = topology.BUILD / "tests" / "kafka" / "kafka_create_acls"
DOCUMENT = topology.ROOT / "docs" / "security.md"
# For which the server needs three brokers: see MinInsyncTest.
ALTER_CONFIGS = ("server", "topic", "prefixed", "flights.", "AlterConfigs")
DENIED = "authorization failed"
PATIENCE = topology.PATIENCE
# The rows last longer than anybody is waited for: what a program lacks it says while they come.
ROWS, ROWS_PER_SECOND = 12000, 30


def documented():
    """The commands of the page, each as its words."""
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    return [shlex.split(line) for line in lines if line.startswith("    kafka-acls --add")]


def acls(command):
    """(user, type, pattern, name, operation) of each ACL that a command makes."""
    options = {}
    for flag, value in zip(command, command[1:], strict=False):
        if flag.startswith("--"):
            options.setdefault(flag, []).append(value)
    (user,) = options["--allow-principal"]
    (pattern,) = options.get("--resource-pattern-type", ["literal"])
    return [(user.removeprefix("User:"), kind, pattern, name, operation)
            for kind in ("topic", "group", "transactional-id")
            for name in options.get(f"--{kind}", []) for operation in options["--operation"]]


def is_for_resharding(acl):
    """What only a change of the number of shards needs, which no job here makes."""
    user, _, _, name, operation = acl
    of_shards = name in ("flights.gradients", "flights.weights", "flights.parameters")
    return user == MASTER and (name == "flights.layout-" or (operation == "Delete" and of_shards))


ALL = [acl for command in documented() for acl in acls(command) if not is_for_resharding(acl)]
# For which the predictor needs a job with embedding rows.
PARAMETERS = ("predictor", "topic", "literal", "flights.parameters", "Read")
# Which the worker needs where there is a master.
PLAN = ("worker", "topic", "literal", "flights.plan", "Read")
# Which the server needs where a master leases rows.
CONTROL = ("server", "topic", "literal", "flights.control", "Write")
EVERY = [acl for acl in ALL
         if acl[0] not in (SOURCE, SCORER, MASTER) and acl not in (PARAMETERS, PLAN, CONTROL)]


def wait_for(happened, timeout=PATIENCE):
    """Whether it has."""
    end = time.monotonic() + timeout
    while not happened():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


class SecureBroker(topology.Broker):
    def __init__(self, folder, version, brokers=1, options=()):
        users = [f"--user={user}={user}-secret" for user in [*USERS, SOURCE, SCORER, MASTER]]
        super().__init__(folder, version, brokers, ["--secure", *users, *options])

    # librdkafka before 2.6.1 cannot log in by SCRAM at Kafka 4.
    @property
    def mechanism(self):
        return "PLAIN" if self.version.startswith("4") else "SCRAM-SHA-256"

    def settings(self, user):
        password = f"{user}-secret"
        if user == "admin":
            password = (pathlib.Path(self.folder) / "secure" / "admin.password").read_text().strip()
        return ["security.protocol=SASL_SSL", f"sasl.mechanism={self.mechanism}",
                f"ssl.ca.location={self.folder}/secure/ca.pem", f"sasl.username={user}",
                f"sasl.password={password}"]  # fmt: skip

    def client_settings(self):
        return self.settings("admin")

    def flags(self, user):
        return [word for setting in self.settings(user) for word in ("--kafka", setting)]

    def allow(self, job, wanted):
        """Those for `flights`, for another job."""
        lines = "".join(f"User:{user} {kind} {pattern} {name.replace('flights', job)} {operation}\n"
                        for user, kind, pattern, name, operation in wanted
                        if kind != "transactional-id")
        subprocess.run([CREATE_ACLS, self.address, *self.settings("admin")], input=lines, text=True,
                       check=True, timeout=PATIENCE)

    def allow_transactions(self, prefix):
        """As the page does it: librdkafka has no such ACLs. (A tool takes seconds.)"""
        self.tool("kafka-acls", *[word.replace("flights-shard-", prefix) for command in documented()
                                  if "flights-shard-" in command for word in command[1:]])

    def allow_transactional_ids(self, documented_id, ids):
        (command,) = [command for command in documented()
                      if documented_id in command and "--transactional-id" in command]
        at = command.index(documented_id)
        self.tool("kafka-acls", *command[1:at - 1], *command[at + 1:],
                  *(word for each in ids for word in ("--transactional-id", each)))


class SecureJob(topology.Job):
    """Each program has a user of its own, and everybody who is started speaks as one of them."""

    def __init__(self, broker, name, folder, data):
        super().__init__(broker, name, folder, workers=2, data=data,
                         training=["--consistency", "sequential", "--batch-rows", "4"],
                         producer=["--rate", str(ROWS_PER_SECOND)])
        self.commands["server"] += ["--snapshot-dir", self.snapshots]
        for program, command in self.commands.items():
            command += broker.flags(next(user for user in USERS if program.startswith(user)))
        self.commands["ask"] = [*self.commands["server"], "--checkpoint-now"]
        self.commands["late"] = self.commands["server"]
        self.commands["watch"] = self.watch_command("--once", user="watch")
        self.commands["predictor"] = [
            topology.PROGRAMS / "Predictor", "--follow", "--brokers", broker.address, "--job", name,
            "--listen", "127.0.0.1:0", *broker.flags("predictor"),
        ]  # fmt: skip

    # Of each user.
    PROGRAMS = {"server": ["server", "ask", "late"], "worker": ["worker0"],
                "producer": ["producer"], "watch": ["watch"],
                "predictor": ["predictor"]}  # fmt: skip

    def watch_command(self, *words, user):
        return [topology.PROGRAMS / "Watch", "--brokers", self.broker.address, "--job", self.name,
                *words, *self.broker.flags(user)]

    def state(self):
        """What Watch knows of it; nothing before the topics are there."""
        done = subprocess.run(self.watch_command("--once", "--json", user="admin"), check=False,
                              capture_output=True, text=True, timeout=PATIENCE)
        return json.loads(done.stdout) if done.returncode != 1 and done.stdout else None

    def has_ended(self, program):
        return self.processes[program].poll() is not None

    def says(self, program, text):
        return program in self.logs and text in self.log(program)

    def denials(self, user):
        """Lines in which its programs say what they lack."""
        return [line for program in self.PROGRAMS[user] if program in self.logs
                for line in self.log(program).splitlines() if DENIED in line.lower()]

    def begin(self):
        """Until rows are trained on. The server creates the topics."""
        self.start("server")
        if wait_for(lambda: self.state() or self.has_ended("server")):
            self.start("worker0", "producer")

    def trains(self):
        return ((self.state() or {}).get("rows_trained") or 0) > 0


# What a job needs only in some situation. Each brings a job that trains into one; what then happens
# takes its time.
def start_the_producer_again(job):
    job.interrupt("producer")
    job.start("producer")


def send_what_nobody_can_use(job):
    job.broker.send({f"{job.name}.gradients": "no gradient", f"{job.name}.weights": "no weights"})


def send_a_worker_what_it_deletes(job):
    """Several records on one partition of `weights`: all but the last are deleted."""
    job.broker.send({f"{job.name}.weights": "\n".join(["no weights"] * 4)})


def request_a_snapshot(job):
    job.processes["server"].send_signal(signal.SIGUSR1)


def wait_for_a_snapshot_that_does_not_come(job):
    """Since a worker hangs. (One that is there at once needs nobody who tells of it.)"""
    job.processes["worker0"].send_signal(signal.SIGSTOP)
    job.start("ask")


def ask_for_a_snapshot_in_vain(job):
    job.start("ask")
    if (code := job.processes["ask"].wait(PATIENCE)) != 1:
        raise AssertionError(f"--checkpoint-now ended with {code}: {job.log('ask')}")


def start_one_that_was_replaced(job):
    """A server hangs, another takes over; the first is started again, and is to wait."""
    # 1: what it would have read was deleted by the other one, of which it may not read.
    while (code := replace_the_server(job)) == 1:
        pass
    if code != 4:
        raise AssertionError(f"who was replaced ended with {code}")
    job.start("late")


def replace_the_server(job):
    """The exit code of who was replaced."""
    hung = job.processes["server"]
    try:
        hung.send_signal(signal.SIGSTOP)
        job.start("server")
        job.wait_for_log("server", "answers workers", PATIENCE)
        hung.send_signal(signal.SIGCONT)
        return hung.wait(PATIENCE)
    finally:
        hung.kill()
        hung.wait()


def watch(job):
    job.start("watch")


def predict(job):
    job.start("predictor")


# By user, topic and operation; the program that then says what it lacks.
SITUATIONS = {
    ("producer", "input-data", "Read"): [(start_the_producer_again, "producer")],
    ("server", "gradients", "Write"): [(request_a_snapshot, "server"),
                                       (ask_for_a_snapshot_in_vain, "ask")],
    ("server", "dead-letter", "Write"): [(send_what_nobody_can_use, "server")],
    # At its start, too; so nothing has to be done to it.
    ("server", "metrics", "Read"): [(None, "server"), (start_one_that_was_replaced, "late"),
                                    (wait_for_a_snapshot_that_does_not_come, "ask")],
    ("worker", "dead-letter", "Write"): [(send_what_nobody_can_use, "worker0")],
    # A worker's own partition may hold nothing, or one answer, until something follows it.
    ("worker", "weights", "Delete"): [(send_a_worker_what_it_deletes, "worker0")],
    ("watch", "metrics", "Read"): [(watch, "watch")],
    ("predictor", "job", "Read"): [(predict, "predictor")],
    ("predictor", "weights", "Read"): [(predict, "predictor")],
    ("predictor", "input-data", "Read"): [(predict, "predictor")],
}  # fmt: skip


class SecureTest(topology.OnABroker):
    rows = ROWS

    @classmethod
    def make_broker(cls, folder):
        return SecureBroker(folder, cls.version)

    def assert_names_what_it_lacks(self, done, missing, job):
        """A program that has ended. missing: the ACL that it has not; None: it has all."""
        self.assertEqual(done.returncode, 1 if missing else 0, done.stderr)
        if missing:
            named = missing[3].replace("flights", job)
            self.assertTrue(any(named in line and DENIED in line.lower()
                                for line in done.stderr.splitlines()), done.stderr)

    def job(self, name):
        folder = self.path / name
        folder.mkdir()
        job = SecureJob(self.broker, name, folder, self.data)
        self.addCleanup(job.close)
        return job

    def until(self, happened, job, what):
        if not wait_for(happened):
            logs = "".join(f"--- {name}\n{job.log(name)[-1500:]}\n" for name in job.logs)
            self.fail(f"{what} did not happen\n{logs}")

    def test_the_documented_commands_suffice(self):
        self.broker.allow_transactions("documented-shard-")
        self.broker.allow("documented", [acl for acl in EVERY if acl != ALTER_CONFIGS])
        job = self.job("documented")
        job.begin()
        self.until(job.trains, job, "training")
        # In all situations at once.
        request_a_snapshot(job)
        self.until(lambda: job.says("server", "requesting a snapshot"), job, "a snapshot's request")
        send_what_nobody_can_use(job)
        self.until(lambda: self.has_letters(job), job, "dead letters")
        job.kill("server")
        job.start("server")
        self.until(lambda: job.says("server", ", down for "), job, "a recovery")
        start_one_that_was_replaced(job)
        self.until(lambda: job.says("late", "took it over"), job, "waiting for who has taken over")
        job.kill("late")
        job.processes.pop("late")
        self.until(lambda: self.snapshot_is_made(job), job, "a snapshot")
        self.until(lambda: self.watch_is_right(job), job, "Watch's display")
        predict(job)
        self.until(lambda: job.says("predictor", "the first weights"), job, "a model")
        job.kill("predictor")
        job.processes.pop("predictor")
        # Its rows are not waited for.
        rate = job.commands["producer"].index("--rate")
        del job.commands["producer"][rate:rate + 2]
        start_the_producer_again(job)
        self.until(lambda: job.says("producer", "continuing after them"), job, "a continuation")
        job.wait_all(PATIENCE)
        self.assertEqual(job.weights.read_bytes(), job.reference()[0])
        for user in USERS:
            self.assertEqual(job.denials(user), [])

    def has_letters(self, job):
        letters = self.broker.records(f"{job.name}.dead-letter", 2)
        return b"no gradient" in letters and b"no weights" in letters

    def snapshot_is_made(self, job):
        """One may be given up, when a worker is slow."""
        if "ask" not in job.processes or job.has_ended("ask") and job.processes["ask"].returncode:
            job.start("ask")
        return job.processes["ask"].poll() == 0

    def watch_is_right(self, job):
        """A broker that takes more than five seconds to answer is none to --once."""
        job.start("watch")
        return job.processes.pop("watch").wait(PATIENCE) == 0

    def test_a_wrong_password_is_told(self):
        watch = [topology.PROGRAMS / "Watch", "--brokers", self.broker.address, "--job", "any", "--once"]
        for setting in [*self.broker.settings("watch")[:-1], "sasl.password=hunter2"]:
            watch += ["--kafka", setting]

        def is_told():
            shown = subprocess.run(watch, capture_output=True, text=True, check=False,
                                   timeout=PATIENCE)
            self.assertNotEqual(shown.returncode, 0)
            self.assertNotIn("hunter2", shown.stdout + shown.stderr)
            return "refuses this user or password" in shown.stderr

        self.assertTrue(wait_for(is_told))

    def test_without_any_one_of_them_a_program_names_what_it_lacks(self):
        self.broker.allow_transactions("lacking-")  # of all jobs at once
        needed = [acl for acl in EVERY if acl != ALTER_CONFIGS]
        self.assertGreater(len(needed), 30)
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            troubles = list(pool.map(lambda i: self.without(i, needed[i]), range(len(needed))))
        self.assertFalse(any(troubles), "\n".join(filter(None, troubles)))

    def without(self, i, missing):
        """Nothing, or what was said instead of what a job's program lacks."""
        user, kind, _, name, operation = missing
        # (None of these jobs' names begins with another's and a dot.)
        job_name = f"{'untransacted' if kind == 'transactional-id' else 'lacking'}-{i}"
        self.broker.allow(job_name, [acl for acl in EVERY if acl not in (missing, ALTER_CONFIGS)])
        situations = SITUATIONS.get((user, name.removeprefix("flights."), operation))
        name = name.replace("flights", job_name)
        job = self.job(job_name)
        try:
            job.begin()
            for provoke, program in situations or [(None, SecureJob.PROGRAMS[user][0])]:
                if provoke and not wait_for(job.trains):
                    return f"without {operation} on {name} it does not train: {job.log('server')}"
                if provoke:
                    provoke(job)
                if not wait_for(lambda: self.tells(job, program, name)):
                    return (f"{program} does not say that it lacks {operation} on {name}: "
                            f"{job.log(program)}")
            return None
        except Exception as error:  # of a thread, which would not say which
            return f"without {operation} on {name}: {type(error).__name__}: {error}"
        finally:
            job.close()

    def test_a_source_needs_what_is_documented_for_it_and_names_what_it_lacks(self):
        rows = ['{"late": "no", "x": 1}', '{"late": "yes", "x": 2}', "no JSON"]
        self.broker.tool("kafka-topics", "--create", "--topic", "departures")
        self.broker.send({"departures": "\n".join(rows)})
        wanted = [acl for acl in ALL if acl[0] == SOURCE]
        self.assertGreater(len(wanted), 9)
        lacking = {f"sourced-{i}": acl for i, acl in enumerate([None, *wanted])}
        self.broker.allow_transactional_ids(
            "flights-source", [f"{job}-source" for job, acl in lacking.items()
                               if acl is None or acl[1] != "transactional-id"])
        for name, missing in lacking.items():
            with self.subTest(missing=missing):
                self.broker.allow(name, [acl for acl in [*EVERY, *wanted]
                                         if acl not in (missing, ALTER_CONFIGS)])
                if missing and missing[3] == "departures":
                    continue  # all jobs have the same
                job = self.sourced_job(name)
                if missing and missing[3:] == ("flights.input-data", "Read"):
                    self.assertEqual(job.wait(SOURCE, PATIENCE), 0, job.log(SOURCE))
                    job.start(SOURCE)  # there was nothing to be read before
                if missing:
                    named = missing[3].replace("flights", name)
                    self.until(lambda: self.tells(job, SOURCE, named), job, f"a line on {missing}")
                else:
                    self.assertEqual(job.wait(SOURCE, PATIENCE), 0, job.log(SOURCE))
                    self.assertIn("holds 2 rows", job.log(SOURCE))
                job.close()

    def test_a_master_needs_what_is_documented_and_names_what_it_lacks(self):
        # (What it may not delete it says after a minute; so that one is not taken away.)
        wanted = [acl for acl in ALL if acl[0] == MASTER]
        self.assertEqual(len(wanted), 12)
        lacking = {f"mastered-{i}": acl for i, acl in enumerate([None, *wanted])
                   if not acl or acl[4] != "Delete"}
        self.broker.allow_transactional_ids(
            "flights.master", [f"{job}.master" for job, acl in lacking.items()
                               if acl is None or acl[1] != "transactional-id"])
        for name, missing in lacking.items():
            if missing and missing[4] == "Describe":
                continue  # it comes with Read
            self.broker.allow(name, [acl for acl in wanted if acl != missing])
            with self.subTest(missing=missing):
                done = subprocess.run(
                    [topology.PROGRAMS / "MasterApp", "--brokers", self.broker.address, "--job", name,
                     "--server-processes", "0", "--worker-command", "true", "--run-dir",
                     self.path / name, *self.broker.flags(MASTER)],
                    check=False, capture_output=True, text=True, timeout=PATIENCE)  # fmt: skip
                self.assert_names_what_it_lacks(done, missing, name)

    def test_a_worker_started_by_hand_beside_a_master_reads_the_plan_if_it_may(self):
        self.broker.allow_transactions("planned-shard-")
        self.broker.allow_transactional_ids("flights.master", ["planned.master"])
        self.broker.allow("planned", [acl for acl in ALL if acl not in (PLAN, ALTER_CONFIGS)])
        job = self.job("planned")
        job.commands["master"] = [
            topology.PROGRAMS / "MasterApp", "--brokers", self.broker.address, "--job", "planned",
            "--workers", "2", "--server-processes", "0", "--worker-processes", "1",
            "--worker-command", "sleep 300", "--run-dir", self.path / "planned-run",
            *self.broker.flags(MASTER),
        ]  # fmt: skip
        job.start("master")
        job.wait_for_log("master", "worker-0 runs")
        job.begin()
        self.until(lambda: self.tells(job, "worker0", "planned.plan"), job, "a denial")
        self.assertEqual(job.wait("worker0", PATIENCE), 1)
        self.broker.allow("planned", [PLAN])
        job.start("worker0")
        self.until(job.trains, job, "training")
        job.interrupt("master")

    def test_a_server_started_by_hand_tells_the_master_what_is_counted_if_it_may(self):
        self.broker.allow_transactions("leased-shard-")
        self.broker.allow_transactional_ids("flights.master", ["leased.master"])
        of_workers = [(MASTER, *acl[1:]) for acl in ALL if acl[0] == "worker"]
        of_workers.append((MASTER, "topic", "prefixed", "flights.", "Create"))
        self.broker.allow("leased", [*of_workers, *(acl for acl in ALL
                                                    if acl not in (CONTROL, ALTER_CONFIGS))])
        job = self.job("leased")
        job.commands["server"] += ["--sharding", "dynamic"]
        job.commands["master"] = [
            topology.PROGRAMS / "MasterApp", "--brokers", self.broker.address, "--job", "leased",
            "--workers", "2", "--server-processes", "0", "--worker-processes", "1",
            "--sharding", "dynamic", "--run-dir", self.path / "leased-run",
            *self.broker.flags(MASTER),
        ]  # fmt: skip
        job.start("master")
        job.wait_for_log("master", "worker-0 runs")
        job.start("server")
        wait_for(lambda: job.state() or job.has_ended("server"))
        job.start("producer")
        self.until(lambda: self.tells(job, "server", "leased.control"), job, "a denial")
        self.broker.allow("leased", [CONTROL])
        job.wait_for_log("master", "rows are leased")
        counted = [topology.PROGRAMS / "MasterApp", "status", "--json", "--brokers",
                   self.broker.address, "--job", "leased", *self.broker.flags(MASTER)]  # fmt: skip

        def some_are_counted():
            printed = subprocess.run(counted, check=True, capture_output=True, timeout=PATIENCE).stdout
            return sum(each["rows_counted"] for each in json.loads(printed)["leases"]["workers"]) > 0

        self.until(some_are_counted, job, "counted rows")
        job.interrupt("master")

    def test_a_predictor_of_topics_needs_what_is_documented_and_names_what_it_lacks(self):
        wanted = [acl for acl in ALL if acl[0] == SCORER]
        self.assertEqual(len(wanted), 5)
        group = "predictor.flights-new.flights-scored"
        lacking = {f"scored-{i}": acl for i, acl in enumerate([None, *wanted])}
        self.broker.allow_transactional_ids(
            group, [group.replace("flights", name) for name, acl in lacking.items()
                    if acl is None or acl[1] != "transactional-id"])
        for name, missing in lacking.items():
            topics = [f"{name}-new", f"{name}-scored", f"{name}-errors"]
            for topic in topics:
                self.broker.tool("kafka-topics", "--create", "--topic", topic)
            self.broker.send({topics[0]: '{"distance": 1}\nno JSON'})
            self.broker.allow(name, [acl for acl in wanted if acl != missing])
            with self.subTest(missing=missing):
                done = subprocess.run(
                    [topology.PROGRAMS / "Predictor", "--model", topology.ROOT / "tests" / "apps" / "model",
                     "--brokers", self.broker.address, "--input-topic", topics[0], "--output-topic", topics[1],
                     "--error-topic", topics[2], "--until-end", *self.broker.flags(SCORER)],
                    check=False, capture_output=True, text=True, timeout=PATIENCE)  # fmt: skip
                self.assert_names_what_it_lacks(done, missing, name)

    def test_a_predictor_reads_the_checkpoints_of_a_job_with_embedding_rows_if_it_may(self):
        self.broker.allow_transactions("embedded-shard-")
        self.broker.allow("embedded", [acl for acl in EVERY if acl != ALTER_CONFIGS])
        job = self.job("embedded")
        command = job.commands["producer"]
        at = command.index("--label")
        command[at:at + len(topology.FEATURES)] = ["--label", "verdict", "--numeric", "price",
                                                   "--ids", "shop"]  # fmt: skip
        job.begin()
        predict(job)
        self.until(lambda: self.tells(job, "predictor", "embedded.parameters"), job, "a denial")
        self.assertEqual(job.wait("predictor", PATIENCE), 1)
        self.broker.allow("embedded", [PARAMETERS])
        predict(job)
        self.until(lambda: "the first weights" in job.said("predictor"), job, "a model")

    def sourced_job(self, name):
        job = self.job(name)
        job.commands[SOURCE] = [
            topology.PROGRAMS / "TopicSource", "--brokers", self.broker.address, "--job", name,
            "--workers", "2", "--topic", "departures", "--until-end", "--label", "late",
            "--numeric", "x", "--classes", "no,yes", *self.broker.flags(SOURCE),
        ]  # fmt: skip
        job.start("server")
        self.until(lambda: job.state() or job.has_ended("server"), job, "the making of the topics")
        job.start(SOURCE)
        return job

    @staticmethod
    def tells(job, program, name):
        return program in job.logs and any(name in line and DENIED in line.lower()
                                           for line in job.said(program).splitlines())


class ScramTest(SecureTest):
    """The same by SCRAM, where librdkafka 2.0.2 can."""

    version = "3.9.1"
    test_without_any_one_of_them_a_program_names_what_it_lacks = None


class MinInsyncTest(topology.OnABroker):
    """Three brokers, of which one would confirm a record alone: a server needs AlterConfigs to create
    topics for which two do."""

    brokers = 3
    rows = 10

    @classmethod
    def make_broker(cls, folder):
        return SecureBroker(folder, cls.version, cls.brokers, options=["--config", "min.insync.replicas=1"])

    WARNING = "counts as written when one broker has it (min.insync.replicas=1)"

    def settings(self, name, allowed):
        """Of the topics that a server has created, who has these ACLs; and what it said."""
        self.broker.allow(name, allowed)
        folder = self.path / name
        folder.mkdir()
        job = SecureJob(self.broker, name, folder, self.path / "rows.csv")
        self.addCleanup(job.close)

        def waits():
            if "server" not in job.processes:
                job.start("server")
            # Not all brokers may obey the ACLs yet.
            if job.has_ended("server") and job.denials("server"):
                job.start("server")
            return "waiting for its features" in job.said("server")

        self.assertTrue(wait_for(waits), job.log("server"))
        told = self.broker.tool("kafka-topics", "--describe", "--exclude-internal").splitlines()
        topics = [line for line in told if f"Topic: {name}." in line and "Configs:" in line]
        self.assertEqual(len(topics), 7, told)
        return topics, job.said("server")

    def test_a_server_with_alter_configs_makes_two_brokers_confirm_a_record(self):
        # The controller decides on both, so a topic that it has allowed to be created may be altered.
        wanted = [ALTER_CONFIGS, *[acl for acl in EVERY if acl != ALTER_CONFIGS]]
        topics, said = self.settings("altering", wanted)
        for topic in topics:
            self.assertIn("min.insync.replicas=2", topic)
        self.assertNotIn(self.WARNING, said)

    def test_a_server_without_it_goes_on_and_warns_of_each_topic(self):
        topics, said = self.settings("unaltered", [acl for acl in EVERY if acl != ALTER_CONFIGS])
        warnings = " ".join(line for line in said.splitlines() if self.WARNING in line)
        for topic in topics:
            self.assertNotIn("min.insync.replicas=2", topic)
            self.assertIn(topic.split("Topic: ")[1].split()[0], warnings)


if __name__ == "__main__":
    topology.main()
