"""MasterApp runs a whole job as pods of a stand-in for a Kubernetes cluster, on a real broker, while pods
are killed and deleted, watches expire, the API server goes away, and the master is killed, too."""

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


class PodsJob(topology.Job):
    """A job that MasterApp runs in a cluster of its own. What runs there is ended by end(), too."""

    def __init__(self, broker, name, folder, flags=(), **options):
        super().__init__(broker, name, folder, **options)
        nodes = self.folder / "nodes"
        nodes.mkdir()
        self.cluster = api_server.ApiServer(nodes, token=TOKEN).start()
        account = self.folder / "account"
        account.mkdir()
        (account / "token").write_text(TOKEN + "\n")
        (account / "namespace").write_text("training")
        rows = [*self.features, "--input", self.data, "--reject-file", self.folder / "rejects.csv",
                *self.producer_flags] if self.data else []  # fmt: skip
        self.commands = {"master": [
            topology.PROGRAMS / "MasterApp", "--brokers", broker.address, "--job", name,
            "--workers", str(self.workers), *self.training, *rows, "--weights-file", self.weights,
            "--checkpoint-interval", "0.3", "--session-timeout", "1.5",
            "--launcher", "kubernetes", "--image", "millrace", "--kubernetes-api", self.cluster.url,
            "--kubernetes-account", account, *flags,
        ]}  # fmt: skip

    def begun(self):
        return (self.cluster.folder / "begun").read_text().split()

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
        """As kubectl delete does."""
        if name := self.running_pod(process):
            with self.cluster.cluster.changed:
                self.cluster.cluster.delete("pods", "training", name, {"gracePeriodSeconds": grace})

    def end(self):
        super().end()
        self.cluster.close()


class Jobs(topology.OnABroker):
    def job(self, flags=(), rows=0, **options):
        name = self.id().rsplit(".", 1)[-1].replace("_", "-")[:60]
        folder = self.path / name
        folder.mkdir()
        data = None
        if rows:
            data = folder / "rows.csv"
            topology.write_csv(data, rows)
        job = PodsJob(self.broker, name, folder, flags, data=data, **options)
        self.addCleanup(job.close)
        return job

    def test_end_in_the_same_bytes_whatever_happens_in_the_cluster(self):
        templates = topology.ROOT / "docker" / "kubernetes" / "{group}.json"
        job = self.job(["--rate", "1500", "--shards", "2", "--pod-template", templates], rows=12_000,
                       training=SEQUENTIAL).start()
        draw = random.Random(5)

        def kill_master():
            if job.processes["master"].poll() is None:
                job.kill("master")
            job.start("master")

        def expire():
            with job.cluster.cluster.changed:
                job.cluster.cluster.forget()

        def away():
            job.cluster.stop()
            time.sleep(draw.uniform(0, 1.5))
            job.cluster.start()

        job.wait_for_log("master", "worker-1 runs")
        for accident in [
            lambda: job.kill_pod("server-0"), expire, lambda: job.kill_pod("worker-1"), kill_master,
            lambda: job.delete_pod("worker-0", 30), away, lambda: job.kill_pod("producer-0"), expire,
            kill_master, lambda: job.delete_pod("server-0", 0), kill_master,
        ]:  # fmt: skip
            time.sleep(draw.uniform(0.05, 0.8))
            accident()
        self.assertEqual(job.wait("master"), 0, job.log("master"))
        weights, _ = job.reference()
        self.assertEqual(job.weights.read_bytes(), weights)
        self.assertEqual(job.summary()["rows_trained"], 12_000)
        begun = job.begun()
        self.assertEqual(len(begun), len(set(begun)), begun)
        self.assertEqual(job.cluster.pods(), {})  # each end was noted, and the pod taken away

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
    topology.end_on_signals()
    unittest.main(verbosity=2)
