"""MasterApp runs a whole job as pods of a stand-in for a Kubernetes cluster, on a real broker, while pods
are killed and deleted, watches expire, the API server goes away, and the master is killed, too.
real_kubernetes_test.py does the same to a real API server."""

import pathlib
import random
import sys
import time
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).parent),
                str(pathlib.Path(__file__).parents[1] / "launcher" / "kubernetes")]  # fmt: skip
import api_server  # noqa: E402
import topology  # noqa: E402

SEQUENTIAL = ["--consistency", "sequential", "--batch-rows", "16", "--learning-rate", "0.2",
              "--l2", "0.0001"]  # fmt: skip
TOKEN = "of-the-service-account"
TEMPLATES = topology.ROOT / "docker" / "kubernetes" / "{group}.json"


class StandIn(api_server.ApiServer):
    """With the account of a master. real_cluster.RealCluster has the same methods."""

    def __init__(self, folder):
        self.nodes, self.account = folder / "nodes", folder / "account"
        for each in self.nodes, self.account:
            each.mkdir()
        super().__init__(self.nodes, token=TOKEN)
        (self.account / "token").write_text(TOKEN + "\n")
        (self.account / "namespace").write_text("training")

    def start(self):
        topology.runs(self)
        return super().start()

    begin = restart = start

    def end(self):
        super().close()

    def close(self):
        self.end()
        topology.runs_no_more(self)

    def delete(self, name, grace):
        """As kubectl delete does."""
        with self.cluster.changed:
            self.cluster.delete("pods", "training", name, {"gracePeriodSeconds": grace})

    def expire(self):
        with self.cluster.changed:
            self.cluster.forget()


class PodsJob(topology.Job):
    """A job that MasterApp runs in a cluster, whose processes are not ended with it."""

    def __init__(self, broker, name, folder, cluster, flags=(), **options):
        super().__init__(broker, name, folder, **options)
        self.cluster = cluster
        rows = [*self.features, "--input", self.data, "--reject-file", self.folder / "rejects.csv",
                *self.producer_flags] if self.data else []  # fmt: skip
        self.commands = {"master": [
            topology.PROGRAMS / "MasterApp", "--brokers", broker.address, "--job", name,
            "--workers", str(self.workers), *self.training, *rows, "--weights-file", self.weights,
            "--checkpoint-interval", "0.3", "--session-timeout", "1.5",
            "--launcher", "kubernetes", "--image", "millrace", "--kubernetes-api", cluster.url,
            "--kubernetes-account", cluster.account, *flags,
        ]}  # fmt: skip

    def begun(self):
        return (self.cluster.nodes / "begun").read_text().split()

    def running_pod(self, process):
        for name, pod in self.cluster.pods().items():
            if pod["metadata"]["labels"]["millrace/process"] == process \
                    and pod["status"]["phase"] == "Running":
                return name
        return None

    def kill_pod(self, process):
        if name := self.running_pod(process):
            self.cluster.kubelet.kill(name)

    def delete_pod(self, process, grace):
        if name := self.running_pod(process):
            self.cluster.delete(name, grace)

    def kill_master(self):
        if self.processes["master"].poll() is None:
            self.kill("master")
        self.start("master")

    def away(self, seconds):
        self.cluster.stop()
        time.sleep(seconds)
        self.cluster.restart()


class OnACluster(topology.OnABroker):
    rate = 1500  # rows per second

    def cluster(self, folder):
        cluster = StandIn(folder).start()
        self.addCleanup(cluster.close)
        return cluster

    def job(self, flags=(), rows=0, **options):
        name = self.id().rsplit(".", 1)[-1].replace("_", "-")[:60]
        folder = self.path / name
        folder.mkdir()
        data = None
        if rows:
            data = folder / "rows.csv"
            topology.write_csv(data, rows)
        job = PodsJob(self.broker, name, folder, self.cluster(folder), flags, data=data, **options)
        self.addCleanup(job.close)
        return job

    def training(self, rows):
        """A job that has begun to train, for some seconds."""
        job = self.job(["--rate", str(self.rate), "--shards", "2", "--pod-template", TEMPLATES], rows=rows,
                       training=SEQUENTIAL).start()  # fmt: skip
        job.wait_for_log("master", "worker-1 runs")
        return job

    def assert_ended_well(self, job, rows):
        self.assertEqual(job.wait("master"), 0, job.log("master"))
        weights, _ = job.reference()
        self.assertEqual(job.weights.read_bytes(), weights)
        self.assertEqual(job.summary()["rows_trained"], rows)
        begun = job.begun()
        self.assertEqual(len(begun), len(set(begun)), begun)
        self.assertEqual(job.cluster.pods(), {})  # each end was noted, and the pod taken away


class Jobs(OnACluster):
    def test_end_in_the_same_bytes_whatever_happens_in_the_cluster(self):
        job = self.training(rows=12_000)
        draw = random.Random(5)
        for accident in [
            lambda: job.kill_pod("server-0"), job.cluster.expire, lambda: job.kill_pod("worker-1"),
            job.kill_master, lambda: job.delete_pod("worker-0", 30),
            lambda: job.away(draw.uniform(0, 1.5)), lambda: job.kill_pod("producer-0"), job.cluster.expire,
            job.kill_master, lambda: job.delete_pod("server-0", 0), job.kill_master,
        ]:  # fmt: skip
            time.sleep(draw.uniform(0.05, 0.8))
            accident()
        self.assert_ended_well(job, 12_000)

    def test_whose_master_begins_while_the_api_server_does_end_well(self):
        job = self.job(rows=500, training=SEQUENTIAL)
        job.cluster.stop()
        job.start().wait_for_log("master", "; waiting for it")
        job.cluster.begin()
        self.assert_ended_well(job, 500)

    def test_that_fail_say_the_last_words_of_their_pods(self):
        job = self.job(["--server-processes", "0", "--worker-processes", "1", "--worker-command",
                        "sh -c 'echo this is broken; exit 3'", "--relaunch-on-worker-failure", "1"])
        job.start()
        self.assertEqual(job.wait("master"), 1)
        self.assertIn("exit code 3: this is broken", job.log("master"))

    def test_that_run_elsewhere_are_not_started_twice(self):
        job = self.job(["--server-processes", "0", "--worker-command", "sleep 1000"])
        job.start().wait_for_log("master", "worker-1 runs")
        job.kill("master")
        command = job.commands["master"]
        job.commands["master"] = [*command, "--kubernetes-namespace", "elsewhere"]
        job.start("master")
        self.assertEqual(job.wait("master"), 1)
        self.assertIn("the namespace elsewhere has no pod", job.said("master"))
        job.commands["master"] = command
        job.start("master").wait_for_log("master", "2 of the job's processes run already")
        job.kill_pod("worker-0")
        job.wait_for_log("master", "worker-0 runs")  # so it has taken the job over
        self.assertEqual(job.interrupt("master"), 130)
        self.assertEqual(len(job.begun()), 3)
        self.assertEqual(job.cluster.pods(), {})


if __name__ == "__main__":
    topology.main()
