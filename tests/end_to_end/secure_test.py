"""A job on a broker with TLS, SASL and the authorizer: the ACLs of docs/security.md suffice, and
none can be spared."""

import concurrent.futures
import pathlib
import shlex
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import topology  # noqa: E402

USERS = ["producer", "server", "worker", "watch"]
CREATE_ACLS = topology.BUILD / "tests" / "kafka" / "kafka_create_acls"
DOCUMENT = topology.ROOT / "docs" / "security.md"
# What a job needs only when it takes a snapshot, meets an unusable record, or when a producer is started
# again; and what only serves to tell for how long a server was down.
RARELY_NEEDED = {("producer", "topic", "input-data", "Read"),
                 ("server", "topic", "gradients", "Write"),
                 ("server", "topic", "dead-letter", "Write"),
                 ("server", "topic", "metrics", "Read"),
                 ("worker", "topic", "dead-letter", "Write")}


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


class SecureBroker(topology.Broker):
    # librdkafka before 2.6.1 cannot log in by SCRAM at Kafka 4.
    @property
    def mechanism(self):
        return "PLAIN" if self.version.startswith("4") else "SCRAM-SHA-256"

    def start(self):
        users = [f"--user={user}={user}-secret" for user in USERS]
        self._call("start", "--secure", *users, "--version", self.version)
        self.address = (pathlib.Path(self.folder) / "bootstrap").read_text().strip()
        return self

    def settings(self, user):
        password = f"{user}-secret"
        if user == "admin":
            password = (pathlib.Path(self.folder) / "secure" / "admin.password").read_text().strip()
        return ["security.protocol=SASL_SSL", f"sasl.mechanism={self.mechanism}",
                f"ssl.ca.location={self.folder}/secure/ca.pem", f"sasl.username={user}",
                f"sasl.password={password}"]  # fmt: skip

    def allow(self, wanted):
        lines = "".join(f"User:{user} {kind} {pattern} {name} {operation}\n"
                        for user, kind, pattern, name, operation in wanted)
        subprocess.run([CREATE_ACLS, self.address, *self.settings("admin")], input=lines, text=True,
                       check=True, timeout=150)

    def allow_transactions(self, prefix):
        """As the page does it: librdkafka has no such ACLs. (A tool takes seconds.)"""
        self.tool("kafka-acls", *[word.replace("flights-shard-", prefix) for command in documented()
                                  if "--transactional-id" in command for word in command[1:]])


class SecureTest(unittest.TestCase):
    version = "4.1.0"

    @classmethod
    def setUpClass(cls):
        cls.folder = topology.temporary_folder()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.path = pathlib.Path(cls.folder.name)
        cls.data = cls.path / "rows.csv"
        topology.write_csv(cls.data, 400)
        cls.broker = SecureBroker(cls.path / "kafka", cls.version).start()
        cls.addClassCleanup(cls.broker.stop)

    def job(self, name):
        folder = self.path / name
        folder.mkdir()
        job = topology.Job(self.broker, name, folder, workers=2, data=self.data,
                           training=["--consistency", "sequential", "--batch-rows", "16"],
                           # Long enough for rows and gradients to be deleted meanwhile.
                           producer=["--rate", "150"])
        for program, command in job.commands.items():
            user = next(user for user in USERS if program.startswith(user))
            for setting in self.broker.settings(user):
                command += ["--kafka", setting]
        self.addCleanup(job.close)
        return job

    def run_job(self, job):
        job.start("server")
        # It creates the topics, and waits for the producer.
        job.wait_for_log("server", "waiting for its features")
        job.start("worker0", "producer")

    def test_the_documented_commands_suffice(self):
        self.broker.allow_transactions("documented-shard-")
        self.broker.allow([(user, kind, pattern, name.replace("flights", "documented"), operation)
                           for command in documented()
                           for user, kind, pattern, name, operation in acls(command)
                           if kind != "transactional-id"])
        job = self.job("documented")
        self.run_job(job)
        job.wait_all()
        self.assertEqual(job.weights.read_bytes(), job.reference()[0])
        watch = ["--once"]
        for setting in self.broker.settings("watch"):
            watch += ["--kafka", setting]
        shown = subprocess.run([topology.PROGRAMS / "Watch", "--brokers", self.broker.address, "--job",
                                "documented", "--workers", "2", *watch], capture_output=True,
                               text=True, check=False, timeout=60)  # fmt: skip
        self.assertEqual(shown.returncode, 0, shown.stderr)

    def test_a_wrong_password_is_told(self):
        watch = [topology.PROGRAMS / "Watch", "--brokers", self.broker.address, "--job", "any", "--once"]
        for setting in [*self.broker.settings("watch")[:-1], "sasl.password=hunter2"]:
            watch += ["--kafka", setting]
        shown = subprocess.run(watch, capture_output=True, text=True, check=False, timeout=60)
        self.assertNotEqual(shown.returncode, 0)
        self.assertIn("refuses this user or password", shown.stderr)
        self.assertNotIn("hunter2", shown.stdout + shown.stderr)

    def test_without_any_one_of_them_a_program_names_what_it_lacks(self):
        every = [acl for command in documented() for acl in acls(command)]
        self.broker.allow_transactions("lacking-")  # of all jobs at once
        needed = [(user, kind, pattern, name, operation)
                  for user, kind, pattern, name, operation in every if user != "watch" and
                  (user, kind, name.removeprefix("flights."), operation) not in RARELY_NEEDED]
        self.assertGreater(len(needed), 20)
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            troubles = list(pool.map(lambda i: self.without(i, needed[i], every), range(len(needed))))
        self.assertFalse(any(troubles), "\n".join(filter(None, troubles)))

    def without(self, i, missing, every):
        """Nothing, or what was said instead of what a job's program lacks."""
        user, kind, _, name, operation = missing
        job_name = f"{'untransacted' if kind == 'transactional-id' else 'lacking'}-{i}"
        self.broker.allow([(u, k, p, n.replace("flights", job_name), o) for u, k, p, n, o in every
                           if (u, k, p, n, o) != missing and k != "transactional-id"])
        name = name.replace("flights", job_name)
        program = {"worker": "worker0"}.get(user, user)
        job = self.job(job_name)
        try:
            job.start("server")
            if (user, operation) != ("server", "Create"):
                self.wait_for(lambda: "waiting for" in job.said("server") or
                              job.processes["server"].poll() is not None)
            job.start("worker0", "producer")
            if self.wait_for(lambda: any(self.tells(line, name)
                                         for line in job.said(program).splitlines())):
                return None
            return f"{program} does not say that it lacks {operation} on {name}: {job.said(program)}"
        finally:
            job.close()

    @staticmethod
    def wait_for(happened, timeout=240):  # a busy machine takes its time
        end = time.monotonic() + timeout
        while not happened():
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        return True

    @staticmethod
    def tells(line, name):
        return name in line and "authorization failed" in line.lower()


class ScramTest(SecureTest):
    """The same by SCRAM, where librdkafka 2.0.2 can."""

    version = "3.9.1"
    test_without_any_one_of_them_a_program_names_what_it_lacks = None


if __name__ == "__main__":
    unittest.main()
