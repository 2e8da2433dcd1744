#include "launcher/kubernetes/kubernetes_launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/launcher/kubernetes/launcher_fixture.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

class KubernetesLauncherTest : public KubernetesLauncherFixture {};

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

}  // namespace
}  // namespace millrace
