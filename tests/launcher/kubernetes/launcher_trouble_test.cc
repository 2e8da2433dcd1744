// API servers that are away, forget, refuse, or are none; and pods of others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "launcher/kubernetes/kubernetes_launcher.h"
#include "tests/launcher/kubernetes/launcher_fixture.h"
#include "topics/process_name.h"

namespace millrace {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class LauncherTroubleTest : public KubernetesLauncherFixture {};

TEST_F(LauncherTroubleTest, WaitsForAnApiServerThatIsAway) {
  const auto launcher = Launcher();
  ASSERT_TRUE(launcher->Start(Order(0, 1, Shell(UntilThere(Path("go")) + "exit 9"))).ok());
  ASSERT_TRUE(WaitForRunning(*launcher, 0, 1));
  Tell("away");
  // Nothing is an error, what is known stays so, and no call takes long: the loop goes on.
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(launcher->Start(Order(1, 2, Shell("exit 0"))).ok());
    EXPECT_TRUE(launcher->Stop(Order(2, 3)).ok());
    EXPECT_TRUE(launcher->Forget(Order(3, 1).process(), 4).ok());
    EXPECT_TRUE(Find(*launcher, 0, 1));
  }
  std::ofstream(Path("go")) << "\n";
  stop_ = true;
  EXPECT_TRUE(absl::IsCancelled(TryLauncher().status()));
  stop_ = false;
  Tell("back");
  EXPECT_EQ(WaitForEnd(*launcher, 0, 1).code(), 9);
  EXPECT_TRUE(WaitUntil([&] {
    EXPECT_TRUE(launcher->Start(Order(1, 2, Shell("exit 0"))).ok());
    return Find(*launcher, 1, 2).has_value();
  }));
  EXPECT_THAT(said(), Contains(HasSubstr("does not answer")));
  EXPECT_LE(said().size(), 6u);  // each of these once
}

TEST_F(LauncherTroubleTest, BeginsWithAnApiServerThatBegins) {
  Tell("away");
  auto launcher = std::async(std::launch::async, [this] { return TryLauncher().status(); });
  EXPECT_TRUE(WaitUntil([&] { return !said().empty(); }));
  EXPECT_THAT(said(), ElementsAre(HasSubstr("; waiting for it")));
  // It listens, and is not ready; then it answers, before it has read the roles.
  Tell("refuse GET POST");
  Tell("back");
  EXPECT_TRUE(WaitUntil([&] { return CountAsked("configmaps/") > 0; }));
  Tell("forbid list watch");
  Tell("accept");
  EXPECT_TRUE(WaitUntil([&] { return CountAsked("pods?labelSelector") > 1; }));
  Tell("forbid");
  const Status status = launcher.get();
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(LauncherTroubleTest, ListsAgainWhenTheWatchHasExpired) {
  const auto launcher = Launcher();
  for (uint64_t incarnation = 1; incarnation <= 4; ++incarnation) {
    if (incarnation == 3) Tell("expire-by-status");
    ASSERT_TRUE(launcher->Start(Order(0, incarnation, Shell("exit 0"))).ok());
    Tell("expire");
    WaitForEnd(*launcher, 0, incarnation);
  }
}

TEST_F(LauncherTroubleTest, GoesOnWithAWatchThatEndsWithoutListingAgain) {
  const auto launcher = Launcher();
  RunToItsEnd(*launcher, 0, 1, Shell("exit 0"));
  const int lists = CountAsked("GET /api/v1/namespaces/training/pods?");
  for (uint64_t incarnation = 2; incarnation <= 4; ++incarnation) {
    const int watches = CountAsked("WATCH");
    ASSERT_TRUE(launcher->Start(Order(0, incarnation, Shell("exit 0"))).ok());
    Tell("end-watches");
    WaitForEnd(*launcher, 0, incarnation);
    EXPECT_TRUE(WaitUntil([&] { return CountAsked("WATCH") > watches; }));
  }
  EXPECT_EQ(CountAsked("GET /api/v1/namespaces/training/pods?"), lists);
}

TEST_F(LauncherTroubleTest, ReadsItsTokenAgainWhenThatIsReplaced) {
  std::filesystem::create_directory(Path("account"));
  std::ofstream(Path("account/token")) << "one\n";
  std::ofstream(Path("account/namespace")) << "elsewhere\n";
  options_.api.kube_namespace = "";
  Tell("token one");
  const auto launcher = Launcher();
  RunToItsEnd(*launcher, 0, 1, Shell("exit 0"));
  EXPECT_THAT(Tell("object " + PodOf(0, 1)), HasSubstr("\"namespace\": \"elsewhere\""));
  std::ofstream(Path("account/token")) << "two\n";
  Tell("token two");
  Tell("end-watches");
  RunToItsEnd(*launcher, 0, 2, Shell("exit 0"));
  std::ofstream(Path("account/token")) << "three\n";
  const Status refused = TryLauncher().status();
  EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr(Path("account")));
  EXPECT_THAT(std::string(refused.message()), Not(HasSubstr("three")));
}

TEST_F(LauncherTroubleTest, SeesWhatOthersHaveDeleted) {
  options_.pods.grace_s = 600;
  const auto launcher = Launcher();
  for (const uint64_t incarnation : {1, 2}) {
    ASSERT_TRUE(launcher->Start(Order(0, incarnation, Shell(UntilThere(Path("never"))))).ok());
    ASSERT_TRUE(WaitForRunning(*launcher, 0, incarnation));
  }
  Tell("delete " + PodOf(0, 1) + " 30");
  EXPECT_EQ(WaitForEnd(*launcher, 0, 1).code(), SIGTERM);
  Tell("remove " + PodOf(0, 2));
  EXPECT_TRUE(WaitUntil([&] { return !Find(*launcher, 0, 2); }));
}

TEST_F(LauncherTroubleTest, RefusesOrdersThatCannotBe) {
  const auto launcher = Launcher();
  EXPECT_TRUE(absl::IsInvalidArgument(launcher->Start(Order(0, 1))));
  EXPECT_TRUE(absl::IsInvalidArgument(launcher->Start(Order(0, 0, {"true"}))));
  EXPECT_TRUE(absl::IsInvalidArgument(launcher->Start(Order(100'000, 1, {"true"}))));
  ProcessOrder odd = Order(0, 1, {"true"});
  odd.mutable_process()->set_group("../x");
  EXPECT_TRUE(absl::IsInvalidArgument(launcher->Start(odd)));
  EXPECT_TRUE(absl::IsInvalidArgument(launcher->Stop(odd)));
  EXPECT_TRUE(absl::IsInvalidArgument(launcher->Forget(odd.process(), 1)));
  // What the cluster refuses.
  options_.pods.templates["worker"] =
      R"({"spec": {"containers": [{"volumeMounts": [{"name": "x", "mountPath": "/millrace"}]}]}})";
  const Status refused = Launcher()->Start(Order(0, 1, {"true"}));
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("x not found"));
}

TEST_F(LauncherTroubleTest, ChangesNoOtherPodOfTheSameName) {
  const auto launcher = Launcher();
  ASSERT_TRUE(launcher->Start(Order(0, 1, Shell(UntilThere(Path("never"))))).ok());
  const auto api = ApiServer::Create(options_.api, nullptr);
  ASSERT_TRUE(api.ok()) << api.status();
  const std::string path = "pods/" + PodOf(0, 1);
  for (const auto& [method, body] :
       std::vector<std::pair<std::string, std::string>>{{"PATCH", OpenGatePatch("another")},
                                                        {"PATCH", DropFinalizerPatch("another")},
                                                        {"DELETE", DeleteBody("another", 0)}}) {
    const auto answer = (*api)->Ask(method, path, body);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->status, 409) << method;
  }
  EXPECT_THAT(Tell("object " + PodOf(0, 1)), HasSubstr("millrace/end"));
}

TEST_F(LauncherTroubleTest, RefusesAddressesThatCannotBe) {
  for (const char* const url :
       {"127.0.0.1:1", "ftp://a", "https://", "https://u:p@a", "http://a b"}) {
    options_.api.url = url;
    EXPECT_TRUE(absl::IsInvalidArgument(TryLauncher().status())) << url;
  }
  options_.api.url = "http://10.0.0.1:8001";
  EXPECT_THAT(std::string(TryLauncher().status().message()), HasSubstr("without TLS"));
  options_.api.url = "http://127.0.0.1:1";
  for (const char* const name : {"", "a/b", "A"}) {
    options_.api.kube_namespace = name;
    EXPECT_THAT(std::string(TryLauncher().status().message()), HasSubstr("--kubernetes-namespace"))
        << name;
  }
}

class KubernetesPodsTest : public KubernetesLauncherFixture {
 protected:
  KubernetesPodsTest() : KubernetesLauncherFixture("--no-kubelet") {}
};

TEST_F(KubernetesPodsTest, SaysOnceWhyAProcessCannotBegin) {
  const auto launcher = Launcher();
  ASSERT_TRUE(launcher->Start(Order(0, 1, {"true"})).ok());
  for (const char* const message : {"first", "second"}) {
    Tell("status " + PodOf(0, 1) +
         R"( {"phase": "Pending", "containerStatuses": [{"name": "main",)" +
         R"( "state": {"waiting": {"reason": "ErrImagePull", "message": ")" + message + "\"}}}]}");
    const auto trouble_is_known = [&] {
      EXPECT_FALSE(Find(*launcher, 0, 1));
      return !said().empty();
    };
    EXPECT_TRUE(WaitUntil(trouble_is_known));
  }
  Tell("status " + PodOf(0, 1) + R"( {"phase": "Running"})");
  EXPECT_TRUE(WaitForRunning(*launcher, 0, 1));
  EXPECT_THAT(said(), ElementsAre(HasSubstr("ErrImagePull: first")));
}

TEST_F(KubernetesPodsTest, TakesNoPodOfAnotherJobForItsOwn) {
  const auto launcher = Launcher();
  options_.pods.epoch = 2;
  const auto other = Launcher();
  ASSERT_TRUE(other->Start(Order(0, 1, {"true"})).ok());
  ASSERT_TRUE(launcher->Start(Order(0, 1, {"true"})).ok());
  Tell("status " + PodNames("tests", 2).PodOf(Order(0, 1).process(), 1) +
       R"( {"phase": "Running"})");
  EXPECT_TRUE(WaitForRunning(*other, 0, 1));
  ASSERT_TRUE(launcher->Resync(stop_).ok());
  EXPECT_FALSE(Find(*launcher, 0, 1));
}

}  // namespace
}  // namespace millrace
