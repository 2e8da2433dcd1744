"""MasterApp starts what a topology.textproto says, and it means the same as the flags that there are."""

import pathlib
import socket
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import test_master  # noqa: E402
import topology  # noqa: E402

ROWS = 6000


class OnABroker(test_master.OnABroker):
    def with_topology(self, text, *flags, **options):
        job = self.job([*flags], **options)
        command = job.commands["master"]
        where = command.index("--workers")
        del command[where:where + 2]  # it follows from the topology
        file = job.folder / "topology.textproto"
        file.write_text(text)
        command += ["--topology", file]
        return job

    @staticmethod
    def hosts(job):
        return {each["name"]: (each["shards"], each["workers"]) for each in job.status()["processes"]}


class TopologyFiles(OnABroker):
    @staticmethod
    def worker_server(ports):
        return "".join(f'server {{ id: {i} ip: "127.0.0.1" port: {port} threads: {threads} }}\n'
                       for i, (port, threads) in enumerate(zip(ports, (2, 1)))) + (
            "server_group { id: 0 neighbor: [0, 1] }\n"
            "worker { global_id: 0 local_id: 0 group_id: 0 threads: 2 }\n"
            "worker { global_id: 1 local_id: 1 group_id: 0 threads: 1 }\n")  # fmt: skip

    def test_of_servers_and_workers_mean_what_the_flags_mean(self):
        flags = ["--replicas", "1", "--rate", "1000"]
        by_flags = self.job([*flags, "--shards", "3", "--server-processes", "2", "--worker-processes", "2",
                             "--replica-listen", "127.0.0.1:0"], rows=ROWS, name="by-flags", workers=3)
        by_flags.start()
        ports = [topology.free_port(), topology.free_port()]
        job = self.with_topology(self.worker_server(ports), *flags, data=by_flags.data, name="by-file", workers=3)
        job.start()
        for i, port in enumerate(ports):
            job.wait_for_log_of(f"server-{i}", f"are served at 127.0.0.1:{port}")
        job.wait_for_rows(500)
        job.wait_for_log_of("worker-1", "joined")
        hosts = self.hosts(job)
        self.assertEqual([hosts[f"server-{i}"][0] for i in range(2)], [[0, 2], [1]])
        self.assertEqual(sorted(len(hosts[f"worker-{i}"][1]) for i in range(2)), [1, 2])
        # A server that is killed has the same address again, and one that runs is in nobody's way.
        job.kill("master")
        job.kill_process("server-1")
        job.start("master")
        job.wait_for_log_of("server-1", f"are served at 127.0.0.1:{ports[1]}", 2)
        self.assert_ended_well(by_flags)
        self.assert_ended_well(job)
        self.assertEqual(job.weights.read_bytes(), by_flags.weights.read_bytes())
        self.assertEqual(job.summary()["rows_trained"], ROWS)

    def test_of_workers_alone_mean_what_the_flags_mean(self):
        def address():
            return ["--master-address", f"127.0.0.1:{topology.free_port()}"]

        by_flags = self.job(["--distribution-strategy", "AllReduce", "--worker-processes", "2", *address()],
                            rows=ROWS, name="members-by-flags", workers=4)  # fmt: skip
        by_flags.start()
        text = "worker { global_id: 0 local_id: 0 threads: 2 }\nworker { global_id: 1 local_id: 1 threads: 2 }\n"
        job = self.with_topology(text, *address(), data=by_flags.data, name="members-by-file", workers=4)
        job.start()
        self.assert_ended_well(by_flags)
        self.assert_ended_well(job)
        self.assertEqual(job.weights.read_bytes(), by_flags.weights.read_bytes())
        self.assertEqual(sorted(self.hosts(job)), ["producer-0", "worker-0", "worker-1"])

    def test_with_a_port_in_use_start_nothing(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            ports = [topology.free_port(), other.getsockname()[1]]
            job = self.with_topology(self.worker_server(ports), rows=100, workers=3).start()
            self.assertEqual(job.wait("master"), 1)
            self.assertIn(f"topology: server 1: 127.0.0.1:{ports[1]} is in use by another program", job.said("master"))
            self.assertEqual(job.running(), {})
        # Nothing is lost: it starts when the port is free.
        time.sleep(0.1)
        job.start("master")
        self.assert_ended_well(job)


if __name__ == "__main__":
    topology.main()
