"""The manifests of docker/kubernetes, by the schemas of Kubernetes (kubernetes-validate), and whether they
agree with each other and with what the stand-in for an API server lets a master do."""

import copy
import json
import pathlib
import re
import unittest

import api_server
import kubernetes_validate
import yaml

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "docker" / "kubernetes"
GROUPS = ["producer", "server", "worker"]


def objects():
    """Those of the YAML files, by kind and name; kustomization.yaml is the tool's own."""
    found = {}
    for path in sorted(FOLDER.glob("*.yaml")):
        if path.name != "kustomization.yaml":
            for each in yaml.safe_load_all(path.read_text()):
                found[each["kind"], each["metadata"]["name"]] = each
    return found


def template(group, rank=0):
    """As MasterApp fills it in."""
    text = (FOLDER / f"{group}.json").read_text()
    for key, value in {"group": group, "rank": str(rank), "process": f"{group}-{rank}"}.items():
        text = text.replace("{" + key + "}", value)
    return json.loads(text)


def validate(what):
    kubernetes_validate.validate(what, kubernetes_validate.latest_version(), strict=True)


class Manifests(unittest.TestCase):
    def test_have_the_form_of_their_kinds(self):
        self.assertGreater(len(objects()), 5)
        for what in [*objects().values(), *(template(group) for group in GROUPS)]:
            validate(what)
        wrong = copy.deepcopy(template("server"))
        wrong["spec"]["containers"][0]["imagee"] = "x"
        with self.assertRaises(kubernetes_validate.ValidationError):
            validate(wrong)

    def test_stand_in_the_kustomization(self):
        listed = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
        self.assertEqual(sorted([*listed["resources"], "kustomization.yaml"]),
                         sorted(path.name for path in FOLDER.glob("*.yaml")))  # fmt: skip
        generated = {each["name"]: each["files"] for each in listed["configMapGenerator"]}
        self.assertEqual(generated["flights-pods"], [f"{group}.json" for group in GROUPS])
        self.assertEqual(generated["flights-settings"], ["flights.textproto"])
        job = objects()["Job", "flights-master"]["spec"]["template"]["spec"]
        self.assertEqual({volume["configMap"]["name"] for volume in job["volumes"]}, set(generated))

    def test_let_the_master_do_what_it_needs_and_no_more(self):
        role = objects()["Role", "millrace-master"]
        rights = {resource: set(rule["verbs"])
                  for rule in role["rules"] for resource in rule["resources"]}  # fmt: skip
        self.assertEqual(rights, api_server.RIGHTS)
        job = objects()["Job", "flights-master"]["spec"]["template"]["spec"]
        self.assertIn(("ServiceAccount", job["serviceAccountName"]), objects())
        self.assertTrue(job["automountServiceAccountToken"])

    def test_start_a_master_again_but_for_exit_codes_that_say_not_to(self):
        job = objects()["Job", "flights-master"]["spec"]
        self.assertEqual(job["template"]["spec"]["restartPolicy"], "Never")  # or the policy is refused
        by_code = {code: rule["action"] for rule in job["podFailurePolicy"]["rules"]
                   for code in rule.get("onExitCodes", {}).get("values", [])}  # fmt: skip
        self.assertEqual(by_code, {137: "Ignore", 2: "FailJob", 4: "FailJob", 130: "FailJob"})
        first = job["podFailurePolicy"]["rules"][0]  # it ends with 130 when it is evicted, too
        self.assertEqual((first["action"], first["onPodConditions"][0]["type"]),
                         ("Ignore", "DisruptionTarget"))  # fmt: skip

    def test_have_a_volume_for_each_server(self):
        shards = int(re.search(r"^shards: (\d+)", (FOLDER / "flights.textproto").read_text(), re.M)[1])
        for rank in range(shards):
            volume = template("server", rank)["spec"]["volumes"][0]
            claim = volume["persistentVolumeClaim"]["claimName"]
            self.assertIn(("PersistentVolumeClaim", claim), objects())

    def test_have_budgets_for_the_pods_that_there_are(self):
        budgets = [each for (kind, _), each in objects().items() if kind == "PodDisruptionBudget"]
        for budget, group in zip(budgets, ["server", "worker"], strict=True):
            labels = template(group)["metadata"]["labels"]
            self.assertLessEqual(budget["spec"]["selector"]["matchLabels"].items(), labels.items())


if __name__ == "__main__":
    unittest.main()
