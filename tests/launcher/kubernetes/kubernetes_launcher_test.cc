#include "launcher/kubernetes/kubernetes_launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/launcher/orders.h"
#include "tests/stores/child_process.h"
#include "tests/stores/temporary_folder.h"
#include "topics/process_name.h"

namespace millrace {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A cluster of the test's own (api_server.py), of which no process is left when the test ends.
class KubernetesLauncherTest : public testing::Test {
 protected:
  static constexpr std::chrono::seconds kPatience{60};
  static constexpr int64_t kLongGrace = 600;  // seconds, longer than any test waits

  explicit KubernetesLauncherTest(const std::string& kubelet = "--kubelet")
      : cluster_({"/usr/bin/python3", API_SERVER, folder_.path(), kubelet}) {
    setenv("no_proxy", "127.0.0.1", 1);
    options_.api.url = cluster_.ReadLine().value_or("");
    options_.api.account_folder = folder_ / "account";
    options_.api.kube_namespace = "training";
    options_.pods.job = "tests";
    options_.pods.epoch = 1;
    options_.pods.image = "none";
    options_.pods.folder = "/millrace";
    options_.pods.grace_s = kLongGrace;
    options_.on_change = [] {};
    options_.away_pause = std::chrono::milliseconds(10);
    options_.say = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      said_.push_back(line);
    };
  }
  ~KubernetesLauncherTest() override { EXPECT_EQ(Tell("quit"), "ok"); }

  // Of the cluster.
  std::string Tell(const std::string& command) {
    cluster_.WriteLine(command);
    return cluster_.ReadLine().value_or("no answer");
  }
  int CountAsked(const std::string& what) {
    const std::string asked = Tell("asked");
    int count = 0;
    for (size_t at = asked.find(what); at != std::string::npos; at = asked.find(what, at + 1)) {
      ++count;
    }
    return count;
  }

  StatusOr<std::unique_ptr<KubernetesLauncher>> TryLauncher() {
    return KubernetesLauncher::Create(options_, stop_);
  }
  std::unique_ptr<KubernetesLauncher> Launcher() {
    auto launcher = TryLauncher();
    EXPECT_TRUE(launcher.ok()) << launcher.status();
    return launcher.ok() ? *std::move(launcher) : nullptr;
  }

  std::string PodOf(uint32_t rank, uint64_t incarnation) const {
    return PodNames("tests", 1).PodOf(Order(rank, 1).process(), incarnation);
  }

  static bool WaitUntil(const std::function<bool()>& is_so) {
    const auto give_up = std::chrono::steady_clock::now() + kPatience;
    while (!is_so()) {
      if (std::chrono::steady_clock::now() >= give_up) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }
  static bool WaitForRunning(KubernetesLauncher& launcher, uint32_t rank, uint64_t incarnation) {
    return WaitUntil([&] {
      const auto report = Find(launcher, rank, incarnation);
      return report && !report->has_end();
    });
  }
  static ProcessEnd WaitForEnd(KubernetesLauncher& launcher, uint32_t rank, uint64_t incarnation) {
    std::optional<ProcessReport> report;
    EXPECT_TRUE(WaitUntil([&] {
      report = Find(launcher, rank, incarnation);
      return report && report->has_end();
    }));
    return report ? report->end() : ProcessEnd();
  }
  static ProcessEnd RunToItsEnd(KubernetesLauncher& launcher, uint32_t rank, uint64_t incarnation,
                                const std::vector<std::string>& command) {
    const Status started = launcher.Start(Order(rank, incarnation, command));
    EXPECT_TRUE(started.ok()) << started;
    return WaitForEnd(launcher, rank, incarnation);
  }

  std::string Path(const std::string& name) const { return folder_ / name; }
  // Goes on until the file is there.
  static std::string UntilThere(const std::string& file) {
    return "while [ ! -e " + file + " ]; do sleep 0.01; done; ";
  }
  std::vector<std::string> said() {
    const std::lock_guard lock(mutex_);
    return said_;
  }
  // The pods of the cluster and its other objects.
  std::string Names() { return Tell("names"); }

  const TemporaryFolder folder_;
  ChildProcess cluster_;
  KubernetesLauncherOptions options_;
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;
  std::vector<std::string> said_;  // guarded by mutex_
};

TEST_F(KubernetesLauncherTest, TellsHowAProcessEnded) {
  const auto launcher = Launcher();
  EXPECT_EQ(RunToItsEnd(*launcher, 0, 1, Shell("exit 0")).cause(), ProcessEnd::EXITED);
  const ProcessEnd failed = RunToItsEnd(*launcher, 1, 2, Shell("echo the disk is full; exit 3"));
  EXPECT_EQ(failed.cause(), ProcessEnd::EXITED);
  EXPECT_EQ(failed.code(), 3);
  EXPECT_EQ(failed.detail(), "the disk is full\n");
  const ProcessEnd killed = RunToItsEnd(*launcher, 2, 3, Shell("kill -9 $$"));
  EXPECT_EQ(killed.cause(), ProcessEnd::SIGNALED);
  EXPECT_EQ(killed.code(), SIGKILL);
  const ProcessEnd none = RunToItsEnd(*launcher, 3, 4, {"/no/such/program"});
  EXPECT_EQ(none.cause(), ProcessEnd::NOT_STARTED);
  EXPECT_THAT(none.detail(), HasSubstr("No such file"));
}

TEST_F(KubernetesLauncherTest, TellsOfWhatChangesWithoutBeingAsked) {
  std::atomic<int> changes = 0;
  options_.on_change = [&] { ++changes; };
  const auto launcher = Launcher();
  ASSERT_TRUE(launcher->Start(Order(0, 1, Shell(UntilThere(Path("go"))))).ok());
  ASSERT_TRUE(WaitForRunning(*launcher, 0, 1));
  const int before = changes;
  std::ofstream(Path("go")) << "\n";
  EXPECT_TRUE(WaitUntil([&] { return changes > before; }));
}

TEST_F(KubernetesLauncherTest, GivesAProgramItsWordsAndItsSettings) {
  options_.settings["worker-0a.textproto"] = "name: \"x\"\n";
  const auto launcher = Launcher();
  const std::vector<std::string> words = {"$(HOME) $$ $HOME", "", "\"a\\b\"\n", "é"};
  std::vector<std::string> command = {"/bin/sh", "-c", "cat $0; printf '<%s>' \"$@\"; exit 3",
                                      "/millrace/config/worker-0a.textproto"};
  command.insert(command.end(), words.begin(), words.end());
  EXPECT_EQ(RunToItsEnd(*launcher, 0, 1, command).detail(),
            "name: \"x\"\n<$(HOME) $$ $HOME><><\"a\\b\"\n><é>");
  EXPECT_NE(Launcher(), nullptr);  // the settings are there already
}

TEST_F(KubernetesLauncherTest, StartsAnIncarnationOnceHoweverOftenItIsTold) {
  const std::vector<std::string> command = Shell("echo x >> " + Path("count"));
  const auto launcher = Launcher();
  const auto other = Launcher();
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(launcher->Start(Order(0, 1, command)).ok());
    EXPECT_TRUE(other->Start(Order(0, 1, command)).ok());
  }
  WaitForEnd(*launcher, 0, 1);
  WaitForEnd(*other, 0, 1);
  EXPECT_TRUE(launcher->Start(Order(0, 1, command)).ok());
  EXPECT_TRUE(Launcher()->Start(Order(0, 1, command)).ok());
  RunToItsEnd(*launcher, 1, 2, Shell("exit 0"));  // by then another would have begun
  EXPECT_EQ(Read(Path("count")), "x\n");
}

TEST_F(KubernetesLauncherTest, TakesOverWhatAnotherHasStarted) {
  auto first = Launcher();
  ASSERT_TRUE(first->Start(Order(0, 1, Shell(UntilThere(Path("go")) + "exit 9"))).ok());
  ASSERT_TRUE(WaitForRunning(*first, 0, 1));
  first = nullptr;
  const auto second = Launcher();
  const auto seen = Find(*second, 0, 1);
  ASSERT_TRUE(seen);
  EXPECT_FALSE(seen->has_end());
  std::ofstream(Path("go")) << "\n";
  EXPECT_EQ(WaitForEnd(*second, 0, 1).code(), 9);
}

TEST_F(KubernetesLauncherTest, SeesAfterAResyncWhatAnotherHasStartedBefore) {
  const auto first = Launcher();
  const auto second = Launcher();
  for (uint64_t incarnation = 1; incarnation <= 5; ++incarnation) {
    RunToItsEnd(*first, 0, incarnation, Shell("exit 0"));
    ASSERT_TRUE(second->Resync(stop_).ok());
    EXPECT_TRUE(Find(*second, 0, incarnation)) << incarnation;
  }
}

TEST_F(KubernetesLauncherTest, AsksAProcessToEnd) {
  const auto launcher = Launcher();
  const auto command =
      Shell("trap 'exit 7' TERM; touch " + Path("ready") + "; " + UntilThere(Path("never")));
  ASSERT_TRUE(launcher->Start(Order(0, 1, command)).ok());
  ASSERT_TRUE(WaitUntil([&] { return std::filesystem::exists(Path("ready")); }));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(launcher->Stop(Order(0, 1)).ok());
  EXPECT_EQ(WaitForEnd(*launcher, 0, 1).code(), 7);
  EXPECT_TRUE(launcher->Stop(Order(0, 1)).ok());
}

TEST_F(KubernetesLauncherTest, KillsAProcessThatDoesNotEndWithinTheGracePeriod) {
  options_.pods.grace_s = 1;
  const auto launcher = Launcher();
  const auto command =
      Shell("trap '' TERM; touch " + Path("ready") + "; " + UntilThere(Path("never")));
  ASSERT_TRUE(launcher->Start(Order(0, 1, command)).ok());
  ASSERT_TRUE(WaitUntil([&] { return std::filesystem::exists(Path("ready")); }));
  ASSERT_TRUE(launcher->Stop(Order(0, 1)).ok());
  EXPECT_EQ(WaitForEnd(*launcher, 0, 1).code(), SIGKILL);
}

TEST_F(KubernetesLauncherTest, DoesNotStartWhatWasStoppedBefore) {
  const auto launcher = Launcher();
  const auto older = Launcher();
  EXPECT_TRUE(launcher->Stop(Order(0, 1)).ok());
  const ProcessEnd end = WaitForEnd(*launcher, 0, 1);
  EXPECT_EQ(end.cause(), ProcessEnd::SIGNALED);
  EXPECT_EQ(end.code(), SIGTERM);
  EXPECT_TRUE(older->Start(Order(0, 1, Shell("echo x > " + Path("count")))).ok());
  RunToItsEnd(*launcher, 1, 2, Shell("exit 0"));
  EXPECT_EQ(Read(Path("count")), "");
  EXPECT_EQ(Find(*older, 0, 1)->end().code(), SIGTERM);
}

TEST_F(KubernetesLauncherTest, ForgetsWhatIsOver) {
  const auto launcher = Launcher();
  const auto older = Launcher();
  const auto command = Shell("echo x >> " + Path("count"));
  RunToItsEnd(*launcher, 0, 1, command);
  WaitForEnd(*older, 0, 1);
  EXPECT_TRUE(launcher->Forget(Order(0, 1).process(), 2).ok());
  EXPECT_FALSE(Find(*launcher, 0, 1));
  EXPECT_THAT(Names(), Not(HasSubstr(PodOf(0, 1))));
  EXPECT_TRUE(WaitUntil([&] { return !Find(*older, 0, 1); }));
  // Neither launcher starts it again, nor does a new one, and no pod is left of the attempts.
  const auto fresh = Launcher();
  for (KubernetesLauncher* one : {launcher.get(), older.get(), fresh.get()}) {
    const Status refused = one->Start(Order(0, 1, command));
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("stop this one"));
    EXPECT_TRUE(one->Stop(Order(0, 1)).ok());
  }
  RunToItsEnd(*launcher, 0, 2, command);
  EXPECT_TRUE(WaitUntil([&] {
    (void)launcher->Look();
    return Names().find(PodOf(0, 1)) == std::string::npos;
  }));
  EXPECT_EQ(Read(Path("count")), "x\nx\n");
}

TEST_F(KubernetesLauncherTest, ForgettingNeverGoesBack) {
  const auto launcher = Launcher();
  const auto older = Launcher();
  EXPECT_TRUE(launcher->Forget(Order(0, 1).process(), 9).ok());
  EXPECT_TRUE(older->Forget(Order(0, 1).process(), 3).ok());
  EXPECT_TRUE(older->Forget(Order(1, 1).process(), 4).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Launcher()->Start(Order(0, 8, Shell("exit 0")))));
  EXPECT_TRUE(absl::IsFailedPrecondition(Launcher()->Start(Order(1, 3, Shell("exit 0")))));
}

TEST_F(KubernetesLauncherTest, StopsWhatIsForgottenThoughItRuns) {
  const auto launcher = Launcher();
  ASSERT_TRUE(launcher->Start(Order(0, 1, Shell(UntilThere(Path("never"))))).ok());
  ASSERT_TRUE(WaitForRunning(*launcher, 0, 1));
  EXPECT_TRUE(launcher->Forget(Order(0, 1).process(), 2).ok());
  EXPECT_TRUE(WaitUntil([&] {
    EXPECT_FALSE(Find(*launcher, 0, 1));
    return Names().find(PodOf(0, 1)) == std::string::npos;
  }));
}

TEST_F(KubernetesLauncherTest, FinishesAStartThatAKilledMasterHasBegun) {
  Tell("refuse PATCH");
  auto killed = Launcher();
  ASSERT_TRUE(killed->Start(Order(0, 1, Shell("echo x >> " + Path("count")))).ok());
  ASSERT_THAT(Names(), HasSubstr(PodOf(0, 1)));
  killed = nullptr;
  Tell("accept");
  const auto launcher = Launcher();
  EXPECT_FALSE(Find(*launcher, 0, 1));  // it has not begun
  RunToItsEnd(*launcher, 0, 1, Shell("echo x >> " + Path("count")));
  EXPECT_EQ(Read(Path("count")), "x\n");
}

TEST_F(KubernetesLauncherTest, TakesAwayWhatAKilledMasterShouldNotHaveMade) {
  auto killed = Launcher();
  const auto launcher = Launcher();
  EXPECT_TRUE(launcher->Forget(Order(0, 1).process(), 2).ok());
  Tell("refuse GET");  // so it does not learn that the incarnation is forgotten
  ASSERT_TRUE(killed->Start(Order(0, 1, Shell("echo x >> " + Path("count")))).ok());
  ASSERT_THAT(Names(), HasSubstr(PodOf(0, 1)));
  killed = nullptr;
  Tell("accept");
  EXPECT_TRUE(WaitUntil([&] {
    EXPECT_FALSE(Find(*launcher, 0, 1));
    return Names().find(PodOf(0, 1)) == std::string::npos;
  }));
  EXPECT_EQ(Read(Path("count")), "");
}

TEST_F(KubernetesLauncherTest, WaitsForAnApiServerThatIsAway) {
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

TEST_F(KubernetesLauncherTest, ListsAgainWhenTheWatchHasExpired) {
  const auto launcher = Launcher();
  for (uint64_t incarnation = 1; incarnation <= 4; ++incarnation) {
    if (incarnation == 3) Tell("expire-by-status");
    ASSERT_TRUE(launcher->Start(Order(0, incarnation, Shell("exit 0"))).ok());
    Tell("expire");
    WaitForEnd(*launcher, 0, incarnation);
  }
}

TEST_F(KubernetesLauncherTest, GoesOnWithAWatchThatEndsWithoutListingAgain) {
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

TEST_F(KubernetesLauncherTest, ReadsItsTokenAgainWhenThatIsReplaced) {
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

TEST_F(KubernetesLauncherTest, SeesWhatOthersHaveDeleted) {
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

TEST_F(KubernetesLauncherTest, RefusesOrdersThatCannotBe) {
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

TEST_F(KubernetesLauncherTest, ChangesNoOtherPodOfTheSameName) {
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

TEST_F(KubernetesLauncherTest, RefusesAddressesThatCannotBe) {
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

class KubernetesPodsTest : public KubernetesLauncherTest {
 protected:
  KubernetesPodsTest() : KubernetesLauncherTest("--no-kubelet") {}
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

// Masters that are replaced at any time, one of which may go on for a while, carry out orders as a
// master gives them, while the cluster fails in each way. Nothing is begun twice, and what was
// ordered is done in the end.
class KubernetesLauncherAtRandom : public KubernetesLauncherTest,
                                   public testing::WithParamInterface<int> {
 protected:
  void DisturbTheCluster() {
    switch (Draw(8)) {
      case 0:
        Tell("away");
        Tell("back");
        break;
      case 1:
        Tell("expire");
        break;
      case 2:
        Tell("end-watches");
        break;
      case 3:
        Tell("refuse PATCH");
        break;
      case 4:
        Tell("refuse GET");
        break;
      case 5:
        Tell("kill " + PodOf(Draw(3), 1 + Draw(static_cast<uint32_t>(newest_))));
        break;
      default:
        Tell("accept");
    }
  }
  uint32_t Draw(uint32_t below) {
    return std::uniform_int_distribution<uint32_t>(0, below - 1)(random_);
  }

  std::mt19937 random_{static_cast<uint32_t>(GetParam())};
  uint64_t newest_ = 1;
};

TEST_P(KubernetesLauncherAtRandom, BeginsNothingTwice) {
  auto launcher = Launcher();
  std::unique_ptr<KubernetesLauncher> older;
  std::map<uint32_t, uint64_t> incarnation;  // by rank; its process is to run
  for (uint32_t rank = 0; rank < 3; ++rank) incarnation[rank] = newest_++;
  const auto run = Shell("sleep 0.$(($$ % 5)); exit 0");
  for (int step = 0; step < 60; ++step) {
    if (Draw(3) == 0) DisturbTheCluster();
    if (Draw(10) == 0) {
      Tell("accept");  // or none can be made
      older = std::exchange(launcher, Launcher());
    }
    const auto reports = launcher->Look();
    ASSERT_TRUE(reports.ok()) << reports.status();
    for (auto& [rank, newest] : incarnation) {
      if (Draw(6) == 0) {
        ASSERT_TRUE(launcher->Stop(Order(rank, newest)).ok());
      }
      const auto of_it = std::ranges::find_if(*reports, [&](const ProcessReport& report) {
        return report.process().rank() == rank && report.incarnation() == newest;
      });
      if (of_it == reports->end()) {
        ASSERT_TRUE(launcher->Start(Order(rank, newest, run)).ok());
        if (older) (void)older->Start(Order(rank, newest, run));
      } else if (of_it->has_end()) {
        const uint64_t over = std::exchange(newest, newest_++);
        ASSERT_TRUE(launcher->Forget(Order(rank, 1).process(), over + 1).ok());
        if (older) (void)older->Start(Order(rank, over, run));
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(Draw(20)));
  }
  older = nullptr;
  Tell("accept");
  launcher = Launcher();
  for (const auto& [rank, newest] : incarnation) {
    EXPECT_TRUE(WaitUntil([&] {
      EXPECT_TRUE(launcher->Start(Order(rank, newest, run)).ok());
      const auto report = Find(*launcher, rank, newest);
      return report && report->has_end();
    }));
    EXPECT_TRUE(launcher->Forget(Order(rank, 1).process(), newest + 1).ok());
  }
  EXPECT_TRUE(WaitUntil([&] {
    (void)launcher->Look();
    return Names() == PodNames("tests", 1).Record();
  })) << Names();
  std::istringstream begun(Read(Path("begun")));
  std::set<std::string> names;
  for (std::string name; std::getline(begun, name);) EXPECT_TRUE(names.insert(name).second) << name;
  EXPECT_FALSE(names.empty());
}

INSTANTIATE_TEST_SUITE_P(Seeds, KubernetesLauncherAtRandom, testing::Range(1, 4));

}  // namespace
}  // namespace millrace
