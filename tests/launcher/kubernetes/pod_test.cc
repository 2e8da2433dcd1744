#include "launcher/kubernetes/pod.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace millrace {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

// As the API server shows one of a process: its spec and status are given.
Json PodJson(const std::string& spec, const std::string& status) {
  Json pod = Json::parse(R"({"kind": "Pod", "metadata": {"name": "job-worker-2-5", "uid": "u",
      "resourceVersion": "17", "labels": {"millrace/job": "job", "millrace/process": "worker-2",
      "millrace/incarnation": "5"}}, "spec": {"containers": [{"name": "main"}, {"name": "side"}]}})");
  pod["spec"].update(Json::parse(spec));
  pod["status"] = Json::parse(status);
  return pod;
}

Pod Parsed(const Json& json) {
  const StatusOr<Pod> pod = ParsePod(json.dump());
  EXPECT_TRUE(pod.ok()) << pod.status() << json;
  return pod.ok() ? *pod : Pod();
}

// Of a pod that has failed, with this state of its first container, and more of its status.
ProcessEnd EndOf(const std::string& terminated, const std::string& more = "{}") {
  Json status = Json::parse(more);
  status["phase"] = "Failed";
  status["containerStatuses"] = Json::array(
      {Json::object({{"name", "side"}, {"state", {{"terminated", {{"exitCode", 77}}}}}}),
       Json::object({{"name", "main"}, {"state", {{"terminated", Json::parse(terminated)}}}})});
  const Pod pod = Parsed(PodJson(R"({"nodeName": "n"})", status.dump()));
  EXPECT_EQ(pod.stage, Pod::Stage::kEnded);
  return pod.end;
}

TEST(PodTest, EndsAsItsFirstContainerDid) {
  const ProcessEnd failed = EndOf(R"({"exitCode": 3, "reason": "Error", "message": "no disk"})");
  EXPECT_EQ(failed.cause(), ProcessEnd::EXITED);
  EXPECT_EQ(failed.code(), 3);
  EXPECT_EQ(failed.detail(), "no disk");
  EXPECT_EQ(EndOf(R"({"exitCode": 0})").cause(), ProcessEnd::EXITED);
  const ProcessEnd not_started =
      EndOf(R"({"exitCode": 128, "reason": "StartError", "message": "no such file"})");
  EXPECT_EQ(not_started.cause(), ProcessEnd::NOT_STARTED);
  EXPECT_EQ(not_started.detail(), "no such file");
  EXPECT_EQ(EndOf(R"({"exitCode": 127, "reason": "ContainerCannotRun"})").cause(),
            ProcessEnd::NOT_STARTED);
  const ProcessEnd short_of_memory = EndOf(R"({"exitCode": 137, "reason": "OOMKilled"})");
  EXPECT_EQ(short_of_memory.cause(), ProcessEnd::OUT_OF_MEMORY);
  EXPECT_THAT(short_of_memory.detail(), HasSubstr("memory limit"));
}

TEST(PodTest, TellsASignalByTheExitCodeOfTheRuntime) {
  for (const int signal : {SIGHUP, SIGKILL, SIGSEGV, SIGTERM}) {
    const ProcessEnd end = EndOf(R"({"exitCode": )" + std::to_string(128 + signal) + "}");
    EXPECT_EQ(end.cause(), ProcessEnd::SIGNALED) << signal;
    EXPECT_EQ(end.code(), signal);
  }
  EXPECT_EQ(EndOf(R"({"exitCode": 1, "signal": 9})").code(), SIGKILL);
  // That of a program of this project that was asked to end.
  const ProcessEnd interrupted = EndOf(R"({"exitCode": 130})");
  EXPECT_EQ(interrupted.cause(), ProcessEnd::EXITED);
  EXPECT_EQ(interrupted.code(), 130);
  EXPECT_EQ(EndOf(R"({"exitCode": 255})").cause(), ProcessEnd::EXITED);
  EXPECT_EQ(EndOf(R"({"exitCode": 128})").cause(), ProcessEnd::EXITED);
}

TEST(PodTest, WasTakenAwayFromItsProcessWhenItsNodeOrTheClusterSaysSo) {
  const std::string killed = R"({"exitCode": 137, "reason": "Error"})";
  const ProcessEnd evicted =
      EndOf(killed, R"({"reason": "Evicted", "message": "The node was low on resource: memory."})");
  EXPECT_EQ(evicted.cause(), ProcessEnd::UNKNOWN);
  EXPECT_EQ(evicted.detail(), "Evicted: The node was low on resource: memory.");
  const ProcessEnd disrupted =
      EndOf(killed, R"({"conditions": [{"type": "Ready", "status": "False"},
          {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}]})");
  EXPECT_EQ(disrupted.cause(), ProcessEnd::UNKNOWN);
  EXPECT_EQ(disrupted.detail(), "DeletionByPodGC");
  EXPECT_EQ(EndOf(R"({"exitCode": 137, "reason": "ContainerStatusUnknown"})").cause(),
            ProcessEnd::UNKNOWN);
  // What had done its work by then has done it.
  EXPECT_EQ(EndOf(R"({"exitCode": 0})", R"({"reason": "Evicted"})").cause(), ProcessEnd::EXITED);
  // Its node is gone, or refused it: there is no status of a container.
  const Pod lost = Parsed(PodJson("{}", R"({"phase": "Failed", "reason": "OutOfcpu"})"));
  EXPECT_EQ(lost.stage, Pod::Stage::kEnded);
  EXPECT_EQ(lost.end.cause(), ProcessEnd::UNKNOWN);
  EXPECT_EQ(lost.end.detail(), "OutOfcpu");
}

TEST(PodTest, RunsFromItsFirstContainersStartToTheEndOfAll) {
  EXPECT_EQ(Parsed(PodJson("{}", R"({"phase": "Pending"})")).stage, Pod::Stage::kWaiting);
  EXPECT_EQ(Parsed(PodJson("{}", "{}")).stage, Pod::Stage::kWaiting);
  EXPECT_EQ(Parsed(PodJson("{}", R"({"phase": "Unknown"})")).stage, Pod::Stage::kWaiting);
  // Another container runs still.
  EXPECT_EQ(Parsed(PodJson("{}", R"({"phase": "Running", "containerStatuses":
                [{"name": "main", "state": {"terminated": {"exitCode": 1}}}]})"))
                .stage,
            Pod::Stage::kRunning);
}

TEST(PodTest, HasEndedWhenItWasDeletedAndNoNodeHasIt) {
  Json json = PodJson("{}", R"({"phase": "Pending"})");
  json["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
  json["metadata"]["deletionGracePeriodSeconds"] = 0;
  Pod pod = Parsed(json);
  EXPECT_TRUE(pod.is_deleted);
  EXPECT_EQ(pod.stage, Pod::Stage::kEnded);
  EXPECT_EQ(pod.end.cause(), ProcessEnd::SIGNALED);
  EXPECT_THAT(pod.end.detail(), HasSubstr("before it began"));
  json["spec"]["nodeName"] = "n";
  json["status"]["phase"] = "Running";
  json["metadata"]["deletionGracePeriodSeconds"] = 30;
  EXPECT_EQ(Parsed(json).stage, Pod::Stage::kRunning);  // it is being ended
  json["metadata"]["deletionGracePeriodSeconds"] = 0;
  pod = Parsed(json);
  EXPECT_EQ(pod.stage, Pod::Stage::kEnded);
  EXPECT_EQ(pod.end.cause(), ProcessEnd::UNKNOWN);
}

TEST(PodTest, TellsWhyItWaits) {
  const auto trouble = [](const std::string& status) {
    return Parsed(PodJson("{}", status)).trouble;
  };
  EXPECT_EQ(trouble(R"({"phase": "Pending", "containerStatuses": [{"name": "main", "state":
                {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}}]})"),
            "ErrImagePull: no such image");
  EXPECT_EQ(trouble(R"({"phase": "Pending", "conditions": [{"type": "PodScheduled",
                "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}]})"),
            "Unschedulable: 0/3 nodes");
  EXPECT_EQ(trouble(R"({"phase": "Pending", "containerStatuses": [{"name": "main", "state":
                {"waiting": {"reason": "ContainerCreating"}}}]})"),
            "");
}

TEST(PodTest, IsNoneWithoutTheLabelsOfAProcess) {
  const Json good = PodJson("{}", "{}");
  EXPECT_EQ(Parsed(good).process.rank(), 2u);
  EXPECT_EQ(Parsed(good).incarnation, 5u);
  for (const auto& [pointer, value] : std::vector<std::pair<std::string, Json>>{
           {"/metadata/labels/millrace~1process", "../x-1"},
           {"/metadata/labels/millrace~1process", 7},
           {"/metadata/labels/millrace~1incarnation", "0"},
           {"/metadata/labels/millrace~1incarnation", "05"},
           {"/metadata/labels/millrace~1incarnation", "99999999999999999999"},
           {"/metadata/labels", nullptr},
           {"/metadata/uid", ""},
           {"/metadata", "text"}}) {
    Json bad = good;
    bad[Json::json_pointer(pointer)] = value;
    EXPECT_TRUE(absl::IsFailedPrecondition(ParsePod(bad.dump()).status())) << bad;
    const std::string list =
        R"({"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": [)";
    const StatusOr<PodList> pods = ParsePodList(list + bad.dump() + "," + good.dump() + ", 7]}");
    ASSERT_TRUE(pods.ok()) << pods.status();
    EXPECT_THAT(pods->pods, SizeIs(1));
  }
}

TEST(PodTest, IsReadWhateverTheTypesOfItsParts) {
  // Each part of it, replaced by each type.
  const Json good =
      PodJson(R"({"nodeName": "n", "schedulingGates": [{"name": "millrace/start"}]})",
              R"({"phase": "Failed", "reason": "Evicted", "conditions": [{"type": "x"}],
          "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 3}}}]})");
  EXPECT_TRUE(Parsed(good).is_gated);
  const Json parts = good.flatten();
  for (const auto& part : parts.items()) {
    for (Json::json_pointer at(part.key()); !at.empty(); at = at.parent_pointer()) {
      for (const char* const other : {"null", "7", "-1", "1e99", "\"x\"", "[]", "{}", "[[1]]"}) {
        Json odd = good;
        odd[at] = Json::parse(other);
        const StatusOr<Pod> pod = ParsePod(odd.dump());
        EXPECT_TRUE(pod.ok() || absl::IsFailedPrecondition(pod.status())) << pod.status();
      }
    }
  }
}

TEST(PodEventTest, GoesOnFromItsVersion) {
  const std::string pod = PodJson("{}", "{}").dump();
  const auto kind = [](const std::string& line) { return ParsePodEvent(line)->kind; };
  const StatusOr<PodEvent> added = ParsePodEvent(R"({"type": "ADDED", "object": )" + pod + "}");
  ASSERT_TRUE(added.ok()) << added.status();
  EXPECT_EQ(added->version, "17");
  EXPECT_EQ(added->kind, PodEvent::Kind::kChanged);
  EXPECT_EQ(added->pod.name, "job-worker-2-5");
  EXPECT_EQ(kind(R"({"type": "DELETED", "object": )" + pod + "}"), PodEvent::Kind::kRemoved);
  const std::string version = R"({"metadata": {"resourceVersion": "18"}}})";
  EXPECT_EQ(ParsePodEvent(R"({"type": "BOOKMARK", "object": )" + version)->version, "18");
  EXPECT_EQ(kind(R"({"type": "MODIFIED", "object": )" + version), PodEvent::Kind::kBookmark);
  EXPECT_EQ(kind(R"({"type": "ERROR", "object": {"code": 410}})"), PodEvent::Kind::kExpired);
  const StatusOr<PodEvent> error =
      ParsePodEvent(R"({"type": "ERROR", "object": {"code": 500, "message": "a\nb"}})");
  EXPECT_EQ(error->kind, PodEvent::Kind::kError);
  EXPECT_EQ(error->error, "a\\x0ab");
  for (const char* const line :
       {"", "{", "[]", "{}", R"({"type": "ADDED"})", R"({"type": "ADDED", "object": {}})"}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(ParsePodEvent(line).status())) << line;
  }
}

TEST(PodNamesTest, AreFitForObjectsAndDifferByJobAndEpoch) {
  ProcessName process;
  process.set_group("worker");
  process.set_rank(2);
  const PodNames names("My_Job.2026", 3);
  EXPECT_THAT(names.job_id(), StartsWith("my-job-2026-"));
  EXPECT_EQ(names.PodOf(process, 5), names.job_id() + "-worker-2-5");
  EXPECT_THAT(PodNames("___", 1).job_id(), StartsWith("job-"));
  EXPECT_LE(PodNames(std::string(200, 'x'), 1).job_id().size(), 40u);
  EXPECT_NE(PodNames("a", 1).job_id(), PodNames("a", 2).job_id());
  EXPECT_NE(PodNames("a", 1).job_id(), PodNames("A", 1).job_id());
  EXPECT_EQ(names.SettingsOf("server-0a.textproto"), names.job_id() + "-server-0a");
  for (const char* const file :
       {"a", ".textproto", "A.textproto", "a/b.textproto", "a-.textproto"}) {
    EXPECT_FALSE(PodNames::IsSettingsFile(file)) << file;
  }
}

TEST(TextRecordTest, IsTheDataOfAConfigMap) {
  const StatusOr<TextRecord> record =
      ParseTextRecord(R"({"metadata": {"resourceVersion": "9"}, "data": {"a": "1", "b": 2}})");
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->version, "9");
  EXPECT_THAT(record->data, testing::ElementsAre(testing::Pair("a", "1")));
  EXPECT_FALSE(ParseTextRecord("{}").ok());
  EXPECT_EQ(ErrorMessage("<html>"), "");
  EXPECT_EQ(ErrorMessage(R"({"message": "no\u001b[2J"})"), "no\\x1b[2J");
}

}  // namespace
}  // namespace millrace
