"""A Kubernetes cluster without nodes: a real kube-apiserver on a real etcd, and a kubelet of the tests, which
binds pods and runs them as processes of this machine. scripts/test-kubernetes has the programs."""

import base64
import http.client
import json
import os
import pathlib
import ssl
import subprocess
import threading
import time
import urllib.request

import pod_process
import topology
import yaml

ETCD = os.environ.get("MILLRACE_ETCD")
API_SERVER = os.environ.get("MILLRACE_KUBE_APISERVER")
NAMESPACE = "training"
ELSEWHERE = "elsewhere"
KUBELET_EVERY_S = 0.05
ADMIN = "of-the-administrator"
MASTER = f"system:serviceaccount:{NAMESPACE}:millrace-master"


class Refused(Exception):
    def __init__(self, status, answer):
        super().__init__(f"{status}: {answer.get('message')}")
        self.status = status


class Client:
    """Of the API server, as an administrator. One request at a time."""

    def __init__(self, port, certificate):
        self._port = port
        self._context = ssl.create_default_context(cafile=certificate)
        self._lock = threading.Lock()
        self._connection = None

    def ask(self, method, path, body=None, kind="application/json"):
        """OSError: there is no answer."""
        data = None if body is None else json.dumps(body)
        headers = {"Authorization": f"Bearer {ADMIN}", "Content-Type": kind, "Accept": "application/json"}
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=30,
                                                                   context=self._context)  # fmt: skip
                self._connection.request(method, path, data, headers)
                answer = self._connection.getresponse()
                status, text = answer.status, answer.read()
            except (OSError, http.client.HTTPException) as error:
                if self._connection is not None:
                    self._connection.close()
                self._connection = None
                raise ConnectionError(str(error)) from error
        try:
            value = json.loads(text)
        except ValueError:
            value = {"message": text.decode(errors="replace")}
        if status >= 300:
            raise Refused(status, value)
        return value

    def pods(self, path="", method="GET", body=None, kind="application/json"):
        return self.ask(method, f"/api/v1/namespaces/{NAMESPACE}/pods{path}", body, kind)


class Kubelet(pod_process.PodRunner):
    """Of the one node of the cluster. What the API server has not heard yet it is told when it is back."""

    def __init__(self, client, folder):
        super().__init__(folder)
        self._client = client
        self._lock = threading.Lock()
        self._names = {}  # of the pods of the processes
        self.errors = []

    def kill(self, name):
        """SIGKILL to the container of a pod, if it runs."""
        with self._lock:
            for uid, process in self.processes.items():
                if self._names[uid] == name:
                    process.kill()

    def _run(self):
        while not self.is_ending:
            try:
                pods = self._client.pods()["items"]
                with self._lock:
                    self.forget({pod["metadata"]["uid"] for pod in pods})
                for pod in pods:
                    self._see(pod)
            except ConnectionError:
                pass  # the API server is away
            except Refused as error:
                if error.status not in (401, 403, 404, 409, 429) and error.status < 500:
                    self.errors.append(str(error))
            time.sleep(KUBELET_EVERY_S)

    def _see(self, pod):
        metadata, spec = pod["metadata"], pod["spec"]
        process = self.processes.get(metadata["uid"])
        is_over = pod["status"]["phase"] in ("Succeeded", "Failed")
        is_deleted = "deletionTimestamp" in metadata
        if process:
            if is_deleted:
                process.stop(metadata["deletionGracePeriodSeconds"])
            if terminated := process.terminated():
                if not is_over:
                    self._tell_end(pod, terminated)
                if is_deleted and metadata["deletionGracePeriodSeconds"] > 0:
                    self._delete(pod)
        elif is_over or spec.get("schedulingGates"):
            pass
        elif is_deleted:
            if spec.get("nodeName") and metadata["deletionGracePeriodSeconds"] > 0:
                self._delete(pod)
        elif not spec.get("nodeName"):
            self._bind(pod)
        else:
            self._begin(pod)

    def _bind(self, pod):
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        self._client.pods(f"/{name}/binding", "POST", {
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "node"}})  # fmt: skip

    def _begin(self, pod):
        uid = pod["metadata"]["uid"]
        with self._lock:
            self._names[uid] = pod["metadata"]["name"]
            try:
                self.processes[uid] = pod_process.PodProcess(pod, self.folder, self._secret)
            except OSError as error:
                if isinstance(error, ConnectionError):
                    raise
                self._tell_end(pod, pod_process.not_started(error))
                return
        self._tell(pod, "Running", {"running": {"startedAt": pod_process.now()}})

    def _secret(self, name):
        secret = self._client.ask("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets/{name}")
        return {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}

    def _tell_end(self, pod, terminated):
        self._tell(pod, "Failed" if terminated["exitCode"] else "Succeeded", {"terminated": terminated})

    def _tell(self, pod, phase, state):
        main = pod["spec"]["containers"][0]
        status = {"name": main["name"], "image": main["image"], "imageID": "", "ready": phase == "Running",
                  "restartCount": 0, "state": state}  # fmt: skip
        self._client.pods(f"/{pod['metadata']['name']}/status", "PATCH", {
            "metadata": {"uid": pod["metadata"]["uid"]},
            "status": {"phase": phase, "containerStatuses": [status]},
        }, kind="application/merge-patch+json")  # fmt: skip

    def _delete(self, pod):
        self._client.pods(f"/{pod['metadata']['name']}", "DELETE", {
            "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
            "preconditions": {"uid": pod["metadata"]["uid"]}})  # fmt: skip


class RealCluster:
    """What tests/launcher/kubernetes/api_server.py stands in for, of the same methods."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.nodes = self.folder / "nodes"
        self.account = self.folder / "account"
        for each in self.nodes, self.account:
            each.mkdir(parents=True)
        self._etcd_port, self._peer_port, self._port = (topology.free_port() for _ in range(3))
        self.url = f"https://127.0.0.1:{self._port}"
        self._programs = {}
        self.kubelet = None
        self.certificate = self.folder / "api.crt"
        self._keys()
        self.client = Client(self._port, self.certificate)

    def _keys(self):
        topology.make_certificate(self.folder / "api.key", self.certificate, "IP:127.0.0.1")
        subprocess.run(["openssl", "genrsa", "-out", self.folder / "accounts.key", "2048"], check=True,
                       capture_output=True)  # fmt: skip
        (self.folder / "tokens.csv").write_text(f"{ADMIN},admin,admin,system:masters\n")
        (self.folder / "audit.json").write_text(json.dumps({
            "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived", "ResponseStarted"],
            "rules": [{"level": "Metadata", "users": [MASTER]}, {"level": "None"}]}))  # fmt: skip

    # ---- its programs ----

    def start(self):
        topology.runs(self)
        self._launch("etcd", [
            ETCD, "--data-dir", self.folder / "etcd", "--unsafe-no-fsync",
            "--listen-client-urls", self._etcd_url, "--advertise-client-urls", self._etcd_url,
            "--listen-peer-urls", f"http://127.0.0.1:{self._peer_port}",
            "--initial-advertise-peer-urls", f"http://127.0.0.1:{self._peer_port}",
            "--initial-cluster", f"default=http://127.0.0.1:{self._peer_port}",
        ])  # fmt: skip
        self.begin()
        self.wait_until_ready()
        self._put_objects()
        self.kubelet = Kubelet(self.client, self.nodes).start()
        return self

    @property
    def _etcd_url(self):
        return f"http://127.0.0.1:{self._etcd_port}"

    def _launch(self, name, command):
        with open(self.folder / f"{name}.log", "ab") as log:
            self._programs[name] = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                                                    stdout=log, stderr=log, start_new_session=True)  # fmt: skip

    def begin(self):
        """Starts the API server, and waits for nothing."""
        self._launch("kube-apiserver", [
            API_SERVER, "--etcd-servers", self._etcd_url, "--bind-address", "127.0.0.1",
            "--advertise-address", "127.0.0.1", "--secure-port", self._port,
            "--tls-cert-file", self.certificate, "--tls-private-key-file", self.folder / "api.key",
            "--service-cluster-ip-range", "10.0.0.0/24", "--endpoint-reconciler-type", "none",
            "--authorization-mode", "RBAC", "--token-auth-file", self.folder / "tokens.csv",
            "--service-account-issuer", self.url, "--service-account-key-file", self.folder / "accounts.key",
            "--service-account-signing-key-file", self.folder / "accounts.key",
            "--audit-policy-file", self.folder / "audit.json", "--audit-log-path", self.folder / "audit.log",
        ])  # fmt: skip

    def wait_until_ready(self):
        end = time.monotonic() + topology.PATIENCE
        while True:
            for name, program in self._programs.items():
                if program.poll() is not None:
                    raise AssertionError(f"{name} has ended\n{self.tail(name)}")
            try:
                self.client.ask("GET", "/readyz")
                return
            except (ConnectionError, Refused) as error:
                if time.monotonic() > end:
                    raise AssertionError(f"kube-apiserver is not ready: {error}\n"
                                         f"{self.tail('kube-apiserver')}") from error
            time.sleep(0.1)

    def tail(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")[-3000:]

    def _put_objects(self):
        """The namespaces and the accounts in them, as a cluster's controllers and docker/kubernetes/ have them."""
        documents = list(yaml.safe_load_all((topology.ROOT / "docker" / "kubernetes" / "access.yaml").read_text()))
        for namespace in "default", NAMESPACE, ELSEWHERE:
            if namespace != "default":
                self.client.ask("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
            self.client.ask("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts",
                            {"metadata": {"name": "default"}})  # fmt: skip
        for namespace in NAMESPACE, ELSEWHERE:
            for each in documents:
                api = "/apis/rbac.authorization.k8s.io/v1" if each["kind"].startswith("Role") else "/api/v1"
                for subject in each.get("subjects", []):
                    subject["namespace"] = NAMESPACE
                self.client.ask("POST", f"{api}/namespaces/{namespace}/{each['kind'].lower()}s", each)
        token = self.client.ask("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/millrace-master/token",
                                {"spec": {"expirationSeconds": 7200}})  # fmt: skip
        (self.account / "token").write_text(token["status"]["token"] + "\n")
        (self.account / "namespace").write_text(NAMESPACE)
        (self.account / "ca.crt").write_bytes(self.certificate.read_bytes())

    def stop(self):
        """SIGKILL to the API server: nobody gets an answer any more; objects and processes stay."""
        program = self._programs.pop("kube-apiserver", None)
        if program:
            program.kill()
            program.wait()

    def restart(self):
        self.begin()
        self.wait_until_ready()

    def end(self):
        if self.kubelet:
            self.kubelet.stop()
            self.kubelet = None
        self.stop()
        if etcd := self._programs.pop("etcd", None):
            etcd.kill()
            etcd.wait()

    def close(self):
        self.end()
        topology.runs_no_more(self)

    # ---- what happens in it ----

    def _etcd(self, call, body):
        request = urllib.request.Request(f"{self._etcd_url}/v3/kv/{call}", data=json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def expire(self):
        """Where a watch stood is no longer in the history: the API server is restarted, and what etcd has of the
        past is taken away."""
        self.stop()
        key = base64.b64encode(b"/elsewhere").decode()
        for _ in range(10):
            put = self._etcd("put", {"key": key, "value": key})
        self._etcd("compaction", {"revision": put["header"]["revision"], "physical": True})
        self.restart()

    def clear(self):
        """Nothing is left of a job."""
        for name in self.pods():
            self.client.pods(f"/{name}", "PATCH", {"metadata": {"finalizers": None}},
                             kind="application/merge-patch+json")  # fmt: skip
            self.delete(name, 0)
        (self.nodes / "begun").unlink(missing_ok=True)  # which processes have (pod_process.py)

    def pods(self):
        return {pod["metadata"]["name"]: pod for pod in self.client.pods()["items"]}

    def delete(self, name, grace):
        """As kubectl delete does."""
        try:
            self.client.pods(f"/{name}", "DELETE", {"apiVersion": "v1", "kind": "DeleteOptions",
                                                    "gracePeriodSeconds": grace})  # fmt: skip
        except Refused as error:
            if error.status != 404:
                raise

    def asked(self):
        """What MasterApps have asked so far, and the status of each answer."""
        path = self.folder / "audit.log"
        events = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [(event["verb"], event.get("objectRef", {}).get("resource"), event["responseStatus"]["code"])
                for event in events if "responseStatus" in event]  # fmt: skip
