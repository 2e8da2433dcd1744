#include "launcher/kubernetes/pod_manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace millrace {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

class PodManifestTest : public testing::Test {
 protected:
  PodManifestTest() : names_("tests", 1) {
    options_.job = "tests";
    options_.image = "millrace:1";
    options_.folder = "/millrace";
    options_.grace_s = 7;
  }

  static ProcessOrder Order(const std::vector<std::string>& command) {
    ProcessOrder order;
    order.mutable_process()->set_group("worker");
    order.mutable_process()->set_rank(2);
    order.set_incarnation(5);
    for (const std::string& word : command) order.add_command(word);
    return order;
  }
  Json Manifest(const std::vector<std::string>& command = {"true"}) {
    const StatusOr<std::string> text = PodManifest(options_, names_, Order(command));
    EXPECT_TRUE(text.ok()) << text.status();
    return text.ok() ? Json::parse(*text, nullptr, false) : Json();
  }
  std::string WhyNot(const std::string& pod, const std::vector<std::string>& command = {"true"}) {
    options_.templates["worker"] = pod;
    const Status status = PodManifest(options_, names_, Order(command)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  }

  PodManifestOptions options_;
  const PodNames names_;
};

TEST_F(PodManifestTest, IsAPodThatWaitsForItsGateAndStaysUntilItsEndIsNoted) {
  const Json pod = Manifest();
  EXPECT_EQ(pod["kind"], "Pod");
  EXPECT_EQ(pod["metadata"]["name"], names_.job_id() + "-worker-2-5");
  EXPECT_EQ(pod["metadata"]["labels"]["millrace/job"], names_.job_id());
  EXPECT_EQ(pod["metadata"]["labels"]["millrace/process"], "worker-2");
  EXPECT_EQ(pod["metadata"]["labels"]["millrace/incarnation"], "5");
  EXPECT_EQ(pod["metadata"]["finalizers"], Json::parse(R"(["millrace/end"])"));
  EXPECT_EQ(pod["spec"]["schedulingGates"], Json::parse(R"([{"name": "millrace/start"}])"));
  EXPECT_EQ(pod["spec"]["restartPolicy"], "Never");
  EXPECT_EQ(pod["spec"]["terminationGracePeriodSeconds"], 7);
  EXPECT_EQ(pod["spec"]["automountServiceAccountToken"], false);
  EXPECT_EQ(pod["spec"]["containers"][0]["image"], "millrace:1");
  // Its own labels make the pod known again.
  Json shown = pod;
  shown["metadata"]["uid"] = "u";
  EXPECT_TRUE(ParsePod(shown.dump())->is_gated);
}

TEST_F(PodManifestTest, GivesEachWordAsItIs) {
  const std::vector<std::string> words = {"sh", "-c",  "echo \"a\\b\" '$(HOME)' $$ \n\x01",
                                          "",   "é😀", "{rank}"};
  const Json pod = Manifest(words);
  const Json& command = pod["spec"]["containers"][0]["command"];
  EXPECT_EQ(command[2], "echo \"a\\b\" '$$(HOME)' $$$$ \n\x01");
  EXPECT_EQ(command[3], "");
  EXPECT_EQ(command[4], words[4]);
  EXPECT_EQ(command[5], "{rank}");
  EXPECT_THAT(WhyNot("{}", {"cat", "\xff"}), HasSubstr("no UTF-8"));
}

TEST_F(PodManifestTest, HasWhatTheTemplateOfItsGroupHas) {
  options_.image = "";
  options_.templates["server"] = R"({"spec": {"hostname": "not-here"}})";
  options_.templates["worker"] = R"({"metadata": {"labels": {"team": "a-{rank}"}, "name": "gone",
      "finalizers": ["theirs/x"]}, "status": {"phase": "Failed"}, "spec": {"restartPolicy": "Always",
      "schedulingGates": [{"name": "theirs/y"}], "serviceAccountName": "{group}",
      "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-{process}"}}],
      "containers": [{"name": "it", "image": "own:2", "args": ["x"],
          "volumeMounts": [{"name": "data", "mountPath": "/millrace"}]}, {"name": "side"}]}})";
  const Json pod = Manifest();
  EXPECT_EQ(pod["metadata"]["labels"]["team"], "a-2");
  EXPECT_EQ(pod["metadata"]["name"], names_.job_id() + "-worker-2-5");
  EXPECT_EQ(pod["metadata"]["finalizers"].size(), 2u);
  EXPECT_EQ(pod["spec"]["schedulingGates"].size(), 2u);
  EXPECT_EQ(pod["spec"]["serviceAccountName"], "worker");
  EXPECT_EQ(pod["spec"]["restartPolicy"], "Never");
  EXPECT_EQ(pod["spec"]["volumes"].size(), 1u);
  EXPECT_EQ(pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], "data-worker-2");
  EXPECT_EQ(pod["spec"]["containers"].size(), 2u);
  EXPECT_EQ(pod["spec"]["containers"][0]["image"], "own:2");
  EXPECT_EQ(pod["spec"]["containers"][0]["command"], Json::parse(R"(["true"])"));
  EXPECT_FALSE(pod["spec"]["containers"][0].contains("args"));
  EXPECT_FALSE(pod["spec"].contains("hostname"));
  EXPECT_FALSE(pod.contains("status"));
}

TEST_F(PodManifestTest, MountsTheFileOfSettingsThatTheCommandNames) {
  const Json pod = Manifest({"WorkerApp", "--config", "/millrace/config/worker-0a.textproto"});
  const Json& volumes = pod["spec"]["volumes"];
  ASSERT_EQ(volumes.size(), 2u);
  EXPECT_TRUE(volumes[0].contains("emptyDir"));
  EXPECT_EQ(volumes[1]["secret"]["secretName"], names_.job_id() + "-worker-0a");
  const Json& mounts = pod["spec"]["containers"][0]["volumeMounts"];
  EXPECT_EQ(mounts[0]["mountPath"], "/millrace");
  EXPECT_EQ(mounts[1]["mountPath"], "/millrace/config");
  EXPECT_EQ(Manifest({"cat", "/millrace/config/../x.textproto"})["spec"]["volumes"].size(), 1u);
  const Json secret = Json::parse(SettingsManifest(names_, "worker-0a.textproto", "name: \"x\""));
  EXPECT_EQ(secret["metadata"]["name"], volumes[1]["secret"]["secretName"]);
  EXPECT_EQ(secret["stringData"]["worker-0a.textproto"], "name: \"x\"");
  EXPECT_EQ(secret["immutable"], true);
}

TEST_F(PodManifestTest, IsRefusedWithAReason) {
  for (const char* const pod :
       {"", "{", "[]", "7", R"({"spec": []})", R"({"metadata": 7})",
        R"({"spec": {"containers": {}}})", R"({"spec": {"containers": ["x"]}})",
        R"({"spec": {"volumes": {}}})", R"({"spec": {"schedulingGates": 1}})",
        R"({"metadata": {"labels": []}})"}) {
    EXPECT_THAT(WhyNot(pod), HasSubstr("--pod-template: that of the group worker")) << pod;
  }
  options_.image = "";
  EXPECT_THAT(WhyNot("{}"), HasSubstr("give --image"));
}

TEST_F(PodManifestTest, RecordsAreReplacedByTheirVersion) {
  TextRecord record;
  EXPECT_FALSE(Json::parse(RecordManifest(names_, record))["metadata"].contains("resourceVersion"));
  record.version = "9";
  record.data = {{"worker-2", "5"}};
  const Json map = Json::parse(RecordManifest(names_, record));
  EXPECT_EQ(map["metadata"]["resourceVersion"], "9");
  EXPECT_EQ(map["data"]["worker-2"], "5");
}

}  // namespace
}  // namespace millrace
