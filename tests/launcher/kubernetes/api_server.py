"""A stand-in for a Kubernetes cluster: the part of the API server's published REST interface that a
launcher of pods needs, and a kubelet that runs pods as processes.

    api_server.py FOLDER [--no-kubelet]

prints its URL, and does what each line of standard input says (COMMANDS), which it answers by a line.
Behaviour that the launcher relies on is that of Kubernetes 1.27 and newer: optimistic concurrency by
resourceVersion and uid, finalizers, scheduling gates, graceful deletion, watches that expire.
"""

import http.server
import json
import pathlib
import re
import sys
import threading
import time
import urllib.parse
import uuid

import pod_process

KINDS = {"pods": "Pod", "configmaps": "ConfigMap", "secrets": "Secret"}
# What the service account of a master may do: docker/kubernetes/access.yaml.
RIGHTS = {
    "pods": {"create", "delete", "get", "list", "patch", "watch"},
    "configmaps": {"create", "get", "update"},
    "secrets": {"create"},
}
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
BOOKMARK_EVERY_S = 0.2
KUBELET_EVERY_S = 0.02


class Refusal(Exception):
    """An answer other than success."""

    def __init__(self, code, reason, message=""):
        super().__init__(message)
        self.code = code
        self.status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                       "reason": reason, "message": message or reason}  # fmt: skip


class Cluster:
    """The objects, and what has happened to them. Its lock is held by whoever reads or changes."""

    def __init__(self):
        self.changed = threading.Condition(threading.RLock())
        self.objects = {}  # (kind, namespace, name)
        self.version = 1000
        self.events = []  # (version, kind, namespace, type, object)
        self.oldest = 1000  # what happened up to it is forgotten
        self.watches = 0  # raised: all watches are ended

    def note(self, kind, namespace, what, event):
        self.version += 1
        what["metadata"]["resourceVersion"] = str(self.version)
        self.events.append((self.version, kind, namespace, event, json.loads(json.dumps(what))))
        self.changed.notify_all()

    def get(self, kind, namespace, name):
        try:
            return self.objects[kind, namespace, name]
        except KeyError:
            raise Refusal(404, "NotFound", f'{kind} "{name}" not found') from None

    def list(self, kind, namespace, labels):
        return [each for (of_kind, of_namespace, _), each in sorted(self.objects.items())
                if (of_kind, of_namespace) == (kind, namespace) and has_labels(each, labels)]  # fmt: skip

    def create(self, kind, namespace, body):
        metadata = body.setdefault("metadata", {})
        name = metadata.get("name", "")
        if not re.fullmatch(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", name):
            raise Refusal(422, "Invalid", f"metadata.name: {name!r}")
        if body.get("kind") != KINDS[kind]:
            raise Refusal(400, "BadRequest", f"{body.get('kind')} is no {KINDS[kind]}")
        if (kind, namespace, name) in self.objects:
            raise Refusal(409, "AlreadyExists", f'{kind} "{name}" already exists')
        if metadata.get("resourceVersion"):
            raise Refusal(400, "BadRequest", "resourceVersion should not be set")
        for value in metadata.get("labels", {}).values():
            if len(value) > 63:
                raise Refusal(422, "Invalid", "metadata.labels: must be no more than 63")
        metadata.update(namespace=namespace, uid=str(uuid.uuid4()), creationTimestamp=pod_process.now())
        if kind == "pods":
            check_pod(body["spec"])
            body["status"] = {"phase": "Pending"}
        self.objects[kind, namespace, name] = body
        self.note(kind, namespace, body, "ADDED")
        return body

    def replace(self, kind, namespace, name, body):
        old = self.get(kind, namespace, name)
        if body["metadata"].get("resourceVersion") not in (None, old["metadata"]["resourceVersion"]):
            raise Refusal(409, "Conflict", "the object has been modified")
        old["data"] = body.get("data", {})
        self.note(kind, namespace, old, "MODIFIED")
        return old

    def patch(self, kind, namespace, name, patch):
        old = self.get(kind, namespace, name)
        metadata = patch.get("metadata", {})
        if metadata.pop("uid", old["metadata"]["uid"]) != old["metadata"]["uid"]:
            raise Refusal(422, "Invalid", f'Pod "{name}" is invalid: metadata.uid: field is immutable')
        dropped = metadata.pop("$deleteFromPrimitiveList/finalizers", [])
        gates = patch.get("spec", {}).pop("schedulingGates", [])
        if metadata or patch.get("spec") or any(gate.get("$patch") != "delete" for gate in gates):
            raise Refusal(422, "Invalid", "the stand-in knows no such patch")
        if gates:
            closed = {gate["name"] for gate in gates}
            old["spec"]["schedulingGates"] = [
                gate for gate in old["spec"].get("schedulingGates", []) if gate["name"] not in closed]  # fmt: skip
        if dropped:
            kept = [each for each in old["metadata"].get("finalizers", []) if each not in dropped]
            old["metadata"]["finalizers"] = kept
        self.note(kind, namespace, old, "MODIFIED")
        self._remove_if_free(kind, namespace, name)
        return old

    def delete(self, kind, namespace, name, options):
        old = self.get(kind, namespace, name)
        if options.get("preconditions", {}).get("uid", old["metadata"]["uid"]) != old["metadata"]["uid"]:
            raise Refusal(409, "Conflict", "Precondition failed: UID in precondition")
        grace = 0
        if kind == "pods":
            grace = options.get("gracePeriodSeconds", old["spec"]["terminationGracePeriodSeconds"])
            if not old["spec"].get("nodeName") or is_over(old):
                grace = 0
        metadata = old["metadata"]
        if "deletionTimestamp" not in metadata or grace < metadata["deletionGracePeriodSeconds"]:
            metadata.update(deletionTimestamp=pod_process.now(), deletionGracePeriodSeconds=grace)
            self.note(kind, namespace, old, "MODIFIED")
        self._remove_if_free(kind, namespace, name)
        return old

    def _remove_if_free(self, kind, namespace, name):
        metadata = self.objects[kind, namespace, name]["metadata"]
        if metadata.get("deletionGracePeriodSeconds") == 0 and not metadata.get("finalizers"):
            self.note(kind, namespace, self.objects.pop((kind, namespace, name)), "DELETED")

    def forget(self):
        """Only what happens from now on can be watched."""
        self.oldest = self.version
        self.events.clear()
        self.watches += 1
        self.changed.notify_all()


def is_over(pod):
    return pod["status"]["phase"] in ("Succeeded", "Failed")


def has_labels(what, labels):
    own = what["metadata"].get("labels", {})
    return all(own.get(key) == value for key, value in labels)


def check_pod(spec):
    if not spec.get("containers") or not spec["containers"][0].get("image"):
        raise Refusal(422, "Invalid", "spec.containers[0].image: Required value")
    volumes = [volume["name"] for volume in spec.get("volumes", [])]
    for mount in spec["containers"][0].get("volumeMounts", []):
        if mount["name"] not in volumes:
            raise Refusal(422, "Invalid", f"volumeMounts: {mount['name']} not found")
    if len(set(volumes)) < len(volumes):
        raise Refusal(422, "Invalid", "spec.volumes: Duplicate value")


class Kubelet(pod_process.PodRunner):
    """Binds pods to its node, and runs their first containers as processes of this machine."""

    def __init__(self, cluster, folder):
        super().__init__(folder)
        self.cluster = cluster

    def _run(self):
        while not self.is_ending:
            with self.cluster.changed:
                for (kind, _, _), pod in list(self.cluster.objects.items()):
                    if kind == "pods":
                        self._see(pod)
                self.forget({pod["metadata"]["uid"] for pod in self.cluster.objects.values()})
                self.cluster.changed.wait(KUBELET_EVERY_S)

    def _see(self, pod):
        metadata, spec = pod["metadata"], pod["spec"]
        running = self.processes.get(metadata["uid"])
        if running:
            self._see_running(pod, running)
        elif is_over(pod) or "deletionTimestamp" in metadata or spec.get("schedulingGates"):
            pass
        elif self._has_secrets(pod):
            spec["nodeName"] = "node"
            self._begin(pod)

    def _has_secrets(self, pod):
        return all("secret" not in volume or
                   ("secrets", pod["metadata"]["namespace"], volume["secret"]["secretName"])
                   in self.cluster.objects for volume in pod["spec"].get("volumes", []))  # fmt: skip

    def _begin(self, pod):
        namespace = pod["metadata"]["namespace"]
        try:
            process = pod_process.PodProcess(
                pod, self.folder, lambda name: self.cluster.get("secrets", namespace, name)["stringData"])  # fmt: skip
        except OSError as error:
            self._end(pod, pod_process.not_started(error))
            return
        self.processes[pod["metadata"]["uid"]] = process
        main = pod["spec"]["containers"][0]
        pod["status"].update(phase="Running", containerStatuses=[
            {"name": main["name"], "state": {"running": {"startedAt": pod_process.now()}}}])  # fmt: skip
        self.cluster.note("pods", namespace, pod, "MODIFIED")

    def _see_running(self, pod, process):
        if terminated := process.terminated():
            del self.processes[pod["metadata"]["uid"]]
            self._end(pod, terminated)
        elif "deletionTimestamp" in pod["metadata"]:
            process.stop(pod["metadata"]["deletionGracePeriodSeconds"])

    def _end(self, pod, terminated):
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        pod["status"].update(
            phase="Failed" if terminated["exitCode"] else "Succeeded",
            containerStatuses=[{"name": pod["spec"]["containers"][0]["name"],
                                "state": {"terminated": terminated}}])  # fmt: skip
        self.cluster.note("pods", namespace, pod, "MODIFIED")
        if "deletionTimestamp" in pod["metadata"]:
            self.cluster.delete("pods", namespace, name, {"gracePeriodSeconds": 0})

    def kill(self, name):
        """SIGKILL to the container of a pod, if it runs."""
        with self.cluster.changed:
            for (kind, _, of_name), pod in self.cluster.objects.items():
                running = self.processes.get(pod["metadata"].get("uid"))
                if kind == "pods" and of_name == name and running:
                    running.kill()


class ApiServer:
    """On a port of its own, which it keeps while it is away."""

    def __init__(self, folder, token="", kubelet=True):
        self.cluster = Cluster()
        self.folder = pathlib.Path(folder)
        self.token = token
        self.asked = []  # what was, and the status of the answer
        self.refused = set()  # methods that get the status 503
        self.forbids = ()  # verbs, as a server that has not read its roles yet
        self.expire_by_status = False  # an expired watch: by the status, or by an event
        self._kubelet = kubelet
        self.kubelet = None
        self._server, self._port = None, 0
        self._server_epoch = 0

    @property
    def url(self):
        return f"http://127.0.0.1:{self._port}"

    def start(self):
        if self._kubelet and not self.kubelet:
            self.kubelet = Kubelet(self.cluster, self.folder).start()
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # an answer is written in two parts

            def __getattr__(self, name):
                if name.startswith("do_"):
                    return lambda: api.answer(self)
                raise AttributeError(name)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True
            request_queue_size = 100

            def handle_error(self, *_):
                pass  # a client has gone

        self._server = Server(("127.0.0.1", self._port), Handler)
        self._port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def stop(self):
        """Nobody gets an answer any more; objects and processes stay."""
        if self._server:
            with self.cluster.changed:
                self._server_epoch += 1
                self.cluster.watches += 1
                self.cluster.changed.notify_all()
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def close(self):
        self.stop()
        if self.kubelet:
            self.kubelet.stop()

    def pods(self):
        with self.cluster.changed:
            return {name: json.loads(json.dumps(pod)) for (kind, _, name), pod
                    in self.cluster.objects.items() if kind == "pods"}  # fmt: skip

    def answer(self, request):
        length = int(request.headers.get("Content-Length") or 0)
        data = request.rfile.read(length)
        epoch = self._server_epoch
        url = urllib.parse.urlsplit(request.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        method = request.command
        if not self._server:
            request.close_connection = True
            return
        try:
            if self.token and request.headers.get("Authorization") != "Bearer " + self.token:
                raise Refusal(401, "Unauthorized")
            if method in self.refused:
                raise Refusal(503, "ServiceUnavailable")
            place = re.fullmatch(r"/api/v1/namespaces/([^/]+)/([a-z]+)(?:/([^/]+))?", url.path)
            if not place or place[2] not in KINDS:
                raise Refusal(404, "NotFound", "the server could not find the requested resource")
            verb = VERBS.get(method) or (
                "get" if place[3] else "watch" if query.get("watch") else "list")
            if verb in self.forbids or verb not in RIGHTS[place[2]]:
                raise Refusal(403, "Forbidden", f"cannot {verb} {place[2]}")
            labels = [part.split("=") for part in query.get("labelSelector", "").split(",") if part]
            if verb == "watch":
                self._watch(request, place[2], place[1], labels, query, epoch)
                return
            status, answer = self._route(method, place[2], place[1], place[3], labels,
                                         json.loads(data) if data else {})  # fmt: skip
        except Refusal as refusal:
            status, answer = refusal.code, refusal.status
        self.asked.append((f"{method} {request.path}", status))
        body = json.dumps(answer).encode()
        request.send_response(status)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def _route(self, method, kind, namespace, name, labels, body):
        with self.cluster.changed:
            if method == "POST":
                return 201, self._copy(self.cluster.create(kind, namespace, body))
            if method == "GET" and not name:
                return 200, self._copy({
                    "kind": KINDS[kind] + "List", "apiVersion": "v1",
                    "metadata": {"resourceVersion": str(self.cluster.version)},
                    "items": self.cluster.list(kind, namespace, labels)})  # fmt: skip
            if method == "GET":
                return 200, self._copy(self.cluster.get(kind, namespace, name))
            if method == "PUT":
                return 200, self._copy(self.cluster.replace(kind, namespace, name, body))
            if method == "PATCH":
                return 200, self._copy(self.cluster.patch(kind, namespace, name, body))
            if method == "DELETE":
                return 200, self._copy(self.cluster.delete(kind, namespace, name, body))
        raise Refusal(405, "MethodNotAllowed")

    @staticmethod
    def _copy(what):
        return json.loads(json.dumps(what))

    def _watch(self, request, kind, namespace, labels, query, epoch):
        version = int(query["resourceVersion"])
        cluster = self.cluster
        with cluster.changed:
            watches = cluster.watches
            is_expired = version < cluster.oldest
        if is_expired and self.expire_by_status:
            raise Refusal(410, "Expired", "too old resource version")
        self.asked.append((f"WATCH {request.path}", 200))
        request.send_response(200)
        request.send_header("Content-Type", "application/json")
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()

        def send(event, what):
            line = json.dumps({"type": event, "object": what}).encode() + b"\n"
            # In two parts, as a network may do it.
            for part in line[: len(line) // 2], line[len(line) // 2 :]:
                request.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                request.wfile.flush()

        if is_expired:
            send("ERROR", Refusal(410, "Expired", "too old resource version").status)
        end = time.monotonic() + float(query.get("timeoutSeconds", 60))
        while not is_expired and time.monotonic() < end:
            with cluster.changed:
                fresh = [event for event in cluster.events if event[0] > version]
                if not fresh and cluster.watches == watches:
                    cluster.changed.wait(BOOKMARK_EVERY_S)
                    fresh = [event for event in cluster.events if event[0] > version]
                reached = cluster.version
                is_over_now = cluster.watches != watches
            if is_over_now and self._server_epoch != epoch:
                request.close_connection = True
                return  # broken off
            for _, of_kind, of_namespace, event, what in fresh:
                if (of_kind, of_namespace) == (kind, namespace) and has_labels(what, labels):
                    send(event, what)
            if is_over_now:
                break
            version = max(version, reached)
            if not fresh and query.get("allowWatchBookmarks"):
                send("BOOKMARK", {"kind": KINDS[kind], "metadata": {"resourceVersion": str(version)}})
        request.wfile.write(b"0\r\n\r\n")


def commands(api):
    """What a line of standard input can say; its words are given."""

    def set_status(name, *text):
        with api.cluster.changed:
            for (kind, namespace, of_name), pod in api.cluster.objects.items():
                if kind == "pods" and of_name == name:
                    pod["spec"].setdefault("nodeName", "node")
                    pod["status"] = json.loads(" ".join(text))
                    api.cluster.note("pods", namespace, pod, "MODIFIED")

    def locked(function):
        def call(*words):
            with api.cluster.changed:
                return function(*words)

        return call

    def drop_watches():
        api.cluster.watches += 1
        api.cluster.changed.notify_all()

    def remove(name):
        for key in [key for key in api.cluster.objects if key[2] == name]:
            api.cluster.note(key[0], key[1], api.cluster.objects.pop(key), "DELETED")

    def delete(name, grace):
        for kind, namespace, of_name in list(api.cluster.objects):
            if kind == "pods" and of_name == name:
                api.cluster.delete(kind, namespace, name, {"gracePeriodSeconds": int(grace)})

    return {
        "away": api.stop,
        "back": api.start,
        "expire": locked(api.cluster.forget),  # and ends the watches
        "expire-by-status": lambda: setattr(api, "expire_by_status", True),
        "end-watches": locked(drop_watches),
        "token": lambda token="": setattr(api, "token", token),
        "refuse": lambda *methods: api.refused.update(methods),
        "accept": lambda: api.refused.clear(),
        "forbid": lambda *verbs: setattr(api, "forbids", verbs),
        "kill": lambda name: api.kubelet.kill(name),
        "status": set_status,
        "remove": locked(remove),  # though it has finalizers
        "delete": locked(delete),  # as kubectl does
        "object": locked(lambda name: json.dumps(
            [each for key, each in api.cluster.objects.items() if key[2] == name])),  # fmt: skip
        "names": locked(lambda: " ".join(sorted(key[2] for key in api.cluster.objects))),
        "asked": lambda: json.dumps(api.asked),
    }


def main():
    folder = sys.argv[1]
    api = ApiServer(folder, kubelet="--no-kubelet" not in sys.argv).start()
    print(api.url, flush=True)
    known = commands(api)
    try:
        for line in sys.stdin:
            word, *rest = line.split()
            if word == "quit":  # after which no process is left
                break
            print(known[word](*rest) or "ok", flush=True)
    finally:
        api.close()
        print("ok", flush=True)


if __name__ == "__main__":
    main()
