"""What test_kubernetes.py shows on a stand-in, on a real API server and etcd, whose programs are at
MILLRACE_KUBE_APISERVER and MILLRACE_ETCD; and that the stand-in answers like the real one. Run by
scripts/test-kubernetes."""

import os
import pathlib
import subprocess
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "launcher" / "kubernetes")]
import real_cluster  # noqa: E402
import test_kubernetes  # noqa: E402
import topology  # noqa: E402

CONTRACT = HERE.parent / "launcher" / "kubernetes" / "contract_test.py"


class Cluster:
    """That of all tests here."""

    cluster = None

    @classmethod
    def get(cls):
        if cls.cluster is None:
            folder = topology.temporary_folder()
            unittest.addModuleCleanup(folder.cleanup)
            cls.cluster = real_cluster.RealCluster(folder.name).start()
            unittest.addModuleCleanup(cls.cluster.close)
        return cls.cluster


class Contract(unittest.TestCase):
    def test_of_the_stand_in_is_kept_by_the_api_server(self):
        cluster = Cluster.get()
        cluster.expire()  # so that some version is too old
        subprocess.run([sys.executable, CONTRACT, "-v"], check=True, timeout=topology.PATIENCE, env={
            **os.environ, "MILLRACE_KUBERNETES_API": cluster.url, "MILLRACE_KUBERNETES_TOKEN": real_cluster.ADMIN,
            "SSL_CERT_FILE": str(cluster.certificate), "no_proxy": "127.0.0.1"})  # fmt: skip


class OnARealCluster(test_kubernetes.OnACluster):
    rate = 300  # so that rows last longer than an API server takes to begin, some times

    def cluster(self, folder):
        cluster = Cluster.get()
        self.addCleanup(self.assertEqual, cluster.kubelet.errors, [])
        self.addCleanup(cluster.clear)
        return cluster


class Jobs(OnARealCluster, test_kubernetes.Jobs):
    """Those of the stand-in."""


class EachAccident(OnARealCluster):
    ROWS = 9_000

    def test_killed_pods(self):
        job = self.training(self.ROWS)
        for process in "worker-0", "server-1", "producer-0", "server-0", "worker-1":
            time.sleep(0.5)
            job.kill_pod(process)
        self.assert_ended_well(job, self.ROWS)

    def test_a_restarted_api_server(self):
        job = self.training(self.ROWS)
        for process in "worker-0", "server-0":
            time.sleep(0.5)
            pod = job.running_pod(process)
            job.cluster.stop()
            job.cluster.kubelet.kill(pod)
            job.cluster.restart()
        self.assert_ended_well(job, self.ROWS)
        self.assertIn("the Kubernetes API server answers again", job.log("master"))

    def test_an_expired_watch(self):
        job = self.training(self.ROWS)
        before = job.cluster.asked()
        job.kill_pod("worker-1")
        job.cluster.expire()
        job.kill_pod("server-1")
        self.wait_for_another_list(job, before)
        self.assert_ended_well(job, self.ROWS)

    def wait_for_another_list(self, job, before):
        """The master had to list the pods again, since where it watched is no longer known."""
        end = time.monotonic() + topology.PATIENCE
        while True:
            since = job.cluster.asked()[len(before):]
            if any(verb == "list" and code == 200 for verb, _, code in since):
                return
            self.assertLess(time.monotonic(), end, job.log("master"))
            time.sleep(0.1)


if __name__ == "__main__":
    topology.main()
