"""What the launcher of pods relies on of an API server, as requests and answers: of the stand-in, or of the
server at MILLRACE_KUBERNETES_API (with MILLRACE_KUBERNETES_TOKEN), where the stand-in is checked against it.
Neither may have a node: no pod ever runs here."""

import json
import os
import tempfile
import unittest
import urllib.error
import urllib.request
import uuid

import api_server

GATE = {"name": "millrace/start"}
FINALIZER = "millrace/end"


class Contract(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.url = os.environ.get("MILLRACE_KUBERNETES_API")
        cls.token = os.environ.get("MILLRACE_KUBERNETES_TOKEN", "")
        if not cls.url:
            folder = tempfile.TemporaryDirectory(prefix="millrace-test-")
            cls.addClassCleanup(folder.cleanup)
            server = api_server.ApiServer(folder.name, kubelet=False).start()
            cls.addClassCleanup(server.close)
            cls.url = server.url

    def setUp(self):
        self.job = "job-" + uuid.uuid4().hex[:12]
        self.name = self.job + "-worker-0-1"
        self.pod = "pods/" + self.name

    def open(self, method, path, body=None):
        patch = "strategic-merge-patch+" if method == "PATCH" else ""
        headers = {"Content-Type": f"application/{patch}json", "Accept": "application/json"}
        if self.token:
            headers["Authorization"] = "Bearer " + self.token
        return urllib.request.urlopen(urllib.request.Request(
            f"{self.url}/api/v1/namespaces/default/{path}", method=method, headers=headers,
            data=None if body is None else json.dumps(body).encode()), timeout=30)  # fmt: skip

    def ask(self, method, path, body=None):
        """The status of the answer, and its body."""
        try:
            with self.open(method, path, body) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def manifest(self, **spec):
        return {"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": self.name, "labels": {"millrace/job": self.job},
                             "finalizers": [FINALIZER]},
                "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 30,
                         "automountServiceAccountToken": False, "schedulingGates": [GATE],
                         "containers": [{"name": "main", "image": "none", "command": ["true"]}],
                         **spec}}  # fmt: skip

    def make(self):
        status, pod = self.ask("POST", "pods", self.manifest())
        self.assertEqual(status, 201, pod)
        return pod["metadata"]["uid"]

    def delete_body(self, uid, grace=30):
        return {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": grace,
                "preconditions": {"uid": uid}}  # fmt: skip

    def gate_patch(self, uid):
        return {"metadata": {"uid": uid},
                "spec": {"schedulingGates": [{**GATE, "$patch": "delete"}]}}  # fmt: skip

    def finalizer_patch(self, uid):
        return {"metadata": {"uid": uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}}

    def selector(self):
        return f"pods?labelSelector=millrace%2Fjob%3D{self.job}"

    def events(self, version, until):
        """The types and objects of a watch, until that type has come."""
        found = []
        with self.open("GET", f"{self.selector()}&watch=1&allowWatchBookmarks=true&timeoutSeconds=20"
                       f"&resourceVersion={version}") as answer:  # fmt: skip
            for line in answer:
                event = json.loads(line)
                if event["type"] != "BOOKMARK":
                    found.append((event["type"], event["object"]))
                if event["type"] == until:
                    break
        return found

    def test_a_name_is_given_once(self):
        self.make()
        status, answer = self.ask("POST", "pods", self.manifest())
        self.assertEqual((status, answer["reason"]), (409, "AlreadyExists"))
        status, pod = self.ask("GET", self.pod)
        self.assertEqual((status, pod["status"]["phase"]), (200, "Pending"))

    def test_what_is_no_pod_is_refused(self):
        for wrong in self.manifest(containers=[]), {**self.manifest(), "kind": "Secret"}:
            status, answer = self.ask("POST", "pods", wrong)
            self.assertIn(status, (400, 422))
            self.assertTrue(answer["message"])

    def test_a_gate_is_opened_by_a_patch_once_or_more(self):
        uid = self.make()
        for _ in range(2):
            status, pod = self.ask("PATCH", self.pod, self.gate_patch(uid))
            self.assertEqual(status, 200, pod)
            self.assertFalse(pod["spec"].get("schedulingGates"))

    def test_another_uid_is_another_pod(self):
        self.make()
        another = str(uuid.uuid4())
        for patch in self.gate_patch(another), self.finalizer_patch(another):
            status, answer = self.ask("PATCH", self.pod, patch)
            self.assertIn(status, (409, 422))
            if status == 422:
                self.assertIn("metadata.uid", answer["message"][:900])
        self.assertEqual(self.ask("DELETE", self.pod, self.delete_body(another))[0], 409)
        status, pod = self.ask("GET", self.pod)
        self.assertEqual(status, 200)
        self.assertNotIn("deletionTimestamp", pod["metadata"])
        self.assertEqual(pod["metadata"]["finalizers"], [FINALIZER])

    def test_a_deleted_pod_stays_until_its_finalizer_is_taken_away(self):
        uid = self.make()
        self.assertIn(self.ask("DELETE", self.pod, self.delete_body(uid))[0], (200, 202))
        status, pod = self.ask("GET", self.pod)
        self.assertEqual(status, 200)
        self.assertIn("deletionTimestamp", pod["metadata"])
        self.assertEqual(pod["metadata"]["deletionGracePeriodSeconds"], 0)  # no node has it
        self.assertEqual(self.ask("POST", "pods", self.manifest())[0], 409)
        self.assertEqual(self.ask("PATCH", self.pod, self.finalizer_patch(uid))[0], 200)
        self.assertEqual(self.ask("GET", self.pod)[0], 404)
        for method, body in ("DELETE", self.delete_body(uid, 0)), ("PATCH", self.finalizer_patch(uid)):
            self.assertEqual(self.ask(method, self.pod, body)[0], 404)
        self.assertNotEqual(self.make(), uid)

    def test_a_pod_without_its_finalizer_is_deleted_at_once(self):
        uid = self.make()
        self.assertEqual(self.ask("PATCH", self.pod, self.finalizer_patch(uid))[0], 200)
        self.assertIn(self.ask("DELETE", self.pod, self.delete_body(uid, 0))[0], (200, 202))
        self.assertEqual(self.ask("GET", self.pod)[0], 404)

    def test_a_watch_tells_what_happens_after_the_list(self):
        status, pods = self.ask("GET", self.selector())
        self.assertEqual((status, pods["kind"], pods["items"]), (200, "PodList", []))
        uid = self.make()
        self.ask("PATCH", self.pod, self.gate_patch(uid))
        self.ask("DELETE", self.pod, self.delete_body(uid))
        self.ask("PATCH", self.pod, self.finalizer_patch(uid))
        events = self.events(pods["metadata"]["resourceVersion"], until="DELETED")
        self.assertEqual(events[0][0], "ADDED")
        self.assertEqual({event for event, _ in events[1:-1]}, {"MODIFIED"})
        self.assertEqual({pod["metadata"]["uid"] for _, pod in events}, {uid})
        # From a version in between, the rest.
        version = events[0][1]["metadata"]["resourceVersion"]
        rest = self.events(version, until="DELETED")
        self.assertEqual(rest, events[1:])

    def test_a_version_that_is_too_old_is_gone(self):
        self.make()
        try:
            event, status = self.events("1", until="ERROR")[-1]
            self.assertEqual((event, status["code"]), ("ERROR", 410))
        except urllib.error.HTTPError as error:
            self.assertEqual(error.code, 410)

    def test_a_record_is_replaced_by_its_version(self):
        name = self.job + "-forgotten"
        record = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {}}
        self.assertEqual(self.ask("GET", f"configmaps/{name}")[0], 404)
        status, first = self.ask("POST", "configmaps", record)
        self.assertEqual(status, 201)
        self.assertEqual(self.ask("POST", "configmaps", record)[0], 409)
        record["metadata"]["resourceVersion"] = first["metadata"]["resourceVersion"]
        record["data"] = {"worker-0": "5"}
        status, second = self.ask("PUT", f"configmaps/{name}", record)
        self.assertEqual((status, second["data"]), (200, {"worker-0": "5"}))
        self.assertEqual(self.ask("PUT", f"configmaps/{name}", record)[0], 409)

    def test_a_secret_is_made_once(self):
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": self.job + "-server-0a"},
                  "immutable": True, "stringData": {"server-0a.textproto": "shards: 2\n"}}  # fmt: skip
        self.assertEqual(self.ask("POST", "secrets", secret)[0], 201)
        self.assertEqual(self.ask("POST", "secrets", secret)[0], 409)


if __name__ == "__main__":
    unittest.main()
