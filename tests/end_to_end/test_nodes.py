"""Nodes of a trainer join MasterApp, and wait for each other, while it is killed, and one of them is."""

import json
import pathlib
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import test_master  # noqa: E402
import topology  # noqa: E402

MEMBER = pathlib.Path(__file__).parent / "node_member.py"
BARRIER_TRAINER = topology.BUILD / "tests" / "end_to_end" / "barrier_trainer"
ROOT = pathlib.Path(__file__).parents[2]
PATIENCE = topology.PATIENCE
# s; nobody who lives may be taken for dead on a machine that gives him no time for seconds.
NODE_TIMEOUT = 20


class Node:
    def __init__(self, messages, address, role, instance):
        self.process = subprocess.Popen(
            [sys.executable, MEMBER, messages, address, role, instance, str(PATIENCE)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def hears(self):
        return json.loads(self.process.stdout.readline())

    def arrives(self, passing):
        self.process.stdin.write(f"{passing}\n")
        self.process.stdin.flush()

    def leaves(self):
        self.process.stdin.close()
        return self.process.wait(PATIENCE)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Trainer:
    """Of the library, which passes barriers by name."""

    def __init__(self, job, address, number, language="c++"):
        self.process = subprocess.Popen(
            [BARRIER_TRAINER, job.broker.address, job.name, address, "2", str(number), language],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def arrives(self, name):
        self.process.stdin.write(f"{name}\n")
        self.process.stdin.flush()

    def hears(self):
        return self.process.stdout.readline().strip()

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Nodes(test_master.OnABroker):
    def setUp(self):
        super().setUp()
        self.messages = self.path / f"{self.id().rsplit('.', 1)[-1]}-messages"
        self.messages.mkdir()
        subprocess.run(["protoc", f"--proto_path={ROOT}", f"--python_out={self.messages}",
                        "messages/nodes.proto"], check=True)  # fmt: skip
        self.address = f"127.0.0.1:{topology.free_port()}"

    def node(self, instance, role="worker"):
        node = Node(self.messages, self.address, role, instance)
        self.addCleanup(node.end)
        return node

    def nodes_of(self, job):
        return {f"{each['role']}-{each['rank']}": (each["state"], each["instance"])
                for each in job.status()["nodes"]}  # fmt: skip

    def wait_for_nodes(self, job, nodes):
        end = time.monotonic() + PATIENCE
        while self.nodes_of(job) != nodes:
            self.assertLess(time.monotonic(), end, (self.nodes_of(job), job.log("master")))
            time.sleep(0.2)

    def test_pass_a_barrier_that_names_who_was_killed_though_the_master_is_too(self):
        job = self.sleepers("--worker-processes", "1", "--master-address", self.address,
                            "--node-timeout", str(NODE_TIMEOUT)).start()  # fmt: skip
        nodes = []
        for rank, instance in enumerate(("first", "second", "third")):
            nodes.append(self.node(instance))
            self.assertEqual(nodes[-1].hears(),
                             {"rank": rank, "timeout_s": NODE_TIMEOUT, "replaced": ""})
        for node in nodes:
            node.arrives(1)
        all_of_them = [f"worker-{rank}" for rank in range(3)]
        for node in nodes:
            self.assertEqual(node.hears(), {"passed": all_of_them, "died": []})
        nodes[0].arrives(2)
        nodes[1].process.kill()
        job.kill("master")
        job.start("master")
        nodes[2].arrives(2)
        for node in (nodes[0], nodes[2]):
            self.assertEqual(node.hears(),
                             {"passed": ["worker-0", "worker-2"], "died": ["worker-1 second"]})
        self.wait_for_nodes(job, {"worker-0": ("live", "first"), "worker-1": ("dead", "second"),
                                  "worker-2": ("live", "third")})  # fmt: skip
        replacement = self.node("fourth")
        self.assertEqual(replacement.hears(),
                         {"rank": 1, "timeout_s": NODE_TIMEOUT, "replaced": "second"})
        nodes[1] = replacement
        for node, passing in zip(nodes, (3, 1, 3)):
            node.arrives(passing)
        for node in nodes:
            self.assertEqual(sorted(node.hears()["passed"]), all_of_them)
        # One that has its id is told why it is not wanted any more.
        self.assertIn("was worker-1, and another has replaced it", self.node("second").hears()["refused"])
        self.assertEqual([node.leaves() for node in nodes], [0, 0, 0])
        self.wait_for_nodes(job, {"worker-0": ("left", "first"), "worker-1": ("left", "fourth"),
                                  "worker-2": ("left", "third")})  # fmt: skip
        self.assertIn("node worker-1 is dead: it gave no sign of life for "
                      f"{NODE_TIMEOUT} s", job.said("master"))
        self.assertIn("fourth.example:7000", job.ask("status"))

    def wait_for_phase(self, job, name, phase):
        end = time.monotonic() + PATIENCE
        while self.nodes_of(job).get(name, (None,))[0] != phase:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.2)

    def trainer(self, job, number, language="c++"):
        trainer = Trainer(job, self.address, number, language)
        self.addCleanup(trainer.end)
        return trainer

    def test_that_are_trainers_of_the_library_wait_for_each_other_whoever_is_killed(self):
        job = self.sleepers("--worker-processes", "1", "--master-address", self.address,
                            "--node-timeout", "3").start()  # fmt: skip
        job.wait_for_log("master", "worker-0 runs")
        first = self.trainer(job, 0)
        first.arrives("begin")
        self.wait_for_phase(job, "trainer-0", "live")
        time.sleep(0.5)  # alone it passes none
        second = self.trainer(job, 1, "c")
        second.arrives("begin")
        both = "trainer-0 is 0, live; trainer-1 is 1, live;"
        self.assertEqual((first.hears(), second.hears()), (both, both))
        first.arrives("end")
        job.kill("master")
        job.start("master")
        second.arrives("end")
        self.assertEqual((first.hears(), second.hears()), (both, both))
        # There are too few until the killed one is started again, and has its rank again.
        first.arrives("again")
        second.process.kill()
        self.wait_for_phase(job, "trainer-1", "dead")
        again = self.trainer(job, 1)
        again.arrives("again")
        self.assertEqual((first.hears(), again.hears()), (both, both))

    def test_that_have_no_master_are_told_so(self):
        job = self.sleepers()
        trainer = Trainer(job, "", 0)
        self.addCleanup(trainer.end)
        trainer.arrives("begin")
        self.assertIn("Barrier and Members ask MasterApp, and no master is given", trainer.hears())


if __name__ == "__main__":
    topology.main()
