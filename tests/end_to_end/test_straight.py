"""Answers that come straight from servers (--answers direct): their streams are cut at random, and servers
are killed; the bytes are those of the reference loop, and of the same job through Kafka."""

import pathlib
import random
import socket
import struct
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import topology  # noqa: E402

ROWS = 12_000
SEQUENTIAL = ["--consistency", "sequential", "--optimizer", "adagrad", "--learning-rate", "0.3"]
STRAIGHT = "answers come straight from"


class CutLine:
    """A port in front of another, whose connections cut() ends, as a network does that breaks."""

    def __init__(self, to):
        self.to, self.open, self.lock = to, [], threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.to))
            except OSError:
                near.close()
                continue
            with self.lock:
                self.open += [near, far]
            for one, other in (near, far), (far, near):
                threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    @staticmethod
    def _pass_on(one, other):
        try:
            while data := one.recv(1 << 16):
                other.sendall(data)
        except OSError:
            pass
        for end in one, other:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        """Returns whether there was anything to cut. What is on its way is lost: both ends get a reset."""
        with self.lock:
            ends, self.open = self.open, []
        for end in ends:
            try:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()
        return bool(ends)

    def close(self):
        self.listener.close()
        self.cut()


class OnABroker(topology.OnABroker):
    rows = ROWS

    def job(self, name, servers=None, direct=True, **options):
        """With a CutLine in front of each server."""
        folder = self.path / name
        folder.mkdir()
        options.setdefault("training", SEQUENTIAL)
        job = topology.Job(self.broker, name, folder, servers=servers, data=self.data, **options)
        self.addCleanup(job.close)
        self.lines = []
        for server in [name for name in job.commands if name.startswith("server")] if direct else []:
            port = topology.free_port()
            line = CutLine(port)
            self.addCleanup(line.close)
            self.lines.append(line)
            job.commands[server] += ["--answers", "direct", "--answers-listen", f"127.0.0.1:{port}",
                                     "--answers-advertise", f"127.0.0.1:{line.port}"]  # fmt: skip
        return job

    def cut_until_the_end(self, job, draw, kill=()):
        """Cuts lines, and now and then kills one of these; returns how many were cut."""
        cuts = 0
        while job.processes["worker0"].poll() is None:
            job.check_that_none_crashed()
            time.sleep(draw.uniform(0.02, 0.4))
            cuts += draw.choice(self.lines).cut()
            if kill and draw.random() < 0.12:
                victim = draw.choice(kill)
                if job.processes[victim].poll() is None:
                    job.kill(victim)
                    job.start(victim)
        job.wait_all()
        return cuts

    def assert_equals_the_reference_loop(self, job):
        weights, _ = job.reference()
        self.assertEqual(job.weights.read_bytes(), weights)
        self.assertEqual(job.summary()["rows_trained"], ROWS)

    def straight(self, job):
        return sum(job.log(worker).count(STRAIGHT) for worker in ("worker0", "worker1"))


class StraightAnswers(OnABroker):
    def test_of_streams_that_are_cut_at_random_end_in_the_bytes_of_the_reference_loop(self):
        job = self.job("cut", producer=["--rate", "1500"]).start()
        cuts = self.cut_until_the_end(job, random.Random(1))
        self.assertGreaterEqual(cuts, 5)
        self.assertGreaterEqual(self.straight(job), 5, "streams were opened again")
        self.assert_equals_the_reference_loop(job)
        through_kafka = self.job("through-kafka", direct=False).start()
        through_kafka.wait_all()
        self.assertEqual(self.straight(through_kafka), 0)
        self.assertEqual(job.weights.read_bytes(), through_kafka.weights.read_bytes())

    def test_of_two_servers_that_are_killed_end_in_the_bytes_of_the_reference_loop(self):
        servers = {"server": [0], "server1": [1]}
        job = self.job("killed", servers=servers, producer=["--rate", "1500"]).start()
        cuts = self.cut_until_the_end(job, random.Random(2), kill=["server", "server1", "worker1"])
        self.assertGreaterEqual(cuts, 3)
        self.assert_equals_the_reference_loop(job)

    def test_of_an_eventual_job_count_every_row_once(self):
        job = self.job("eventual", producer=["--rate", "3000"],
                       training=["--consistency", "eventual"]).start()  # fmt: skip
        self.cut_until_the_end(job, random.Random(3), kill=["worker0"])
        self.assertEqual(job.summary()["rows_trained"], ROWS)

    def test_of_small_updates_without_a_pause_keep_their_streams(self):
        # A side that sends all the time must read, too, or the other one misses the answers to its pings.
        job = self.job("steady", producer=["--rate", "150", "--rows-per-turn", "1"],
                       training=[*SEQUENTIAL, "--batch-rows", "1"]).start()  # fmt: skip
        workers = ["worker0", "worker1"]
        job.wait_for_log(workers, STRAIGHT)
        time.sleep(9)  # a silent side is given up after 6 seconds
        for name in workers:
            self.assertIsNone(job.processes[name].poll(), "its rows were too few to tell")
            self.assertNotIn("the stream of answers", job.log(name))

    def test_a_server_that_sends_through_kafka_again_takes_its_offer_back(self):
        job = self.job("switched", producer=["--rate", "2000"]).start()
        job.wait_for_log(["worker0"], STRAIGHT)
        job.kill("server")
        command = job.commands["server"]
        del command[command.index("--answers"):]
        job.start("server")
        job.wait_all()
        self.assert_equals_the_reference_loop(job)
        self.assertIn("they come through Kafka", job.log("worker0"))


if __name__ == "__main__":
    topology.main()
