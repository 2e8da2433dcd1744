#include "launcher/local_launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "launcher/running_process.h"
#include "tests/launcher/launch_test.h"
#include "tests/stores/child_process.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class LocalLauncherTest : public LaunchTest {
 protected:
  static ProcessName Worker(uint32_t rank) { return Order(rank, 1).process(); }
};

// Goes on until the file is there.
std::string UntilThere(const std::string& file) {
  return "while [ ! -e " + file + " ]; do sleep 0.01; done; ";
}

TEST_F(LocalLauncherTest, TellsTheExitCodeAsSoonAsAProcessEnds) {
  const auto launcher = Launcher();
  EXPECT_EQ(RunToItsEnd(*launcher, 0, 1, Shell("exit 0")).cause(), ProcessEnd::EXITED);
  const ProcessEnd end = RunToItsEnd(*launcher, 1, 2, Shell("exit 3"));
  EXPECT_EQ(end.cause(), ProcessEnd::EXITED);
  EXPECT_EQ(end.code(), 3);
}

TEST_F(LocalLauncherTest, TellsAsSoonAsAProcessRuns) {
  const auto launcher = Launcher();
  ASSERT_TRUE(launcher->Start(Order(0, 1, Shell(UntilThere(Path("go"))))).ok());
  EXPECT_TRUE(WaitUntil(
      [&] {
        const auto report = Find(*launcher, 0, 1);
        return report && !report->has_end();
      },
      kPatience));
}

TEST_F(LocalLauncherTest, TellsWhichSignalAProcessDiedOf) {
  const auto launcher = Launcher();
  const ProcessEnd end = RunToItsEnd(*launcher, 0, 1, Shell("kill -9 $$"));
  EXPECT_EQ(end.cause(), ProcessEnd::SIGNALED);
  EXPECT_EQ(end.code(), SIGKILL);
  EXPECT_EQ(RunToItsEnd(*launcher, 0, 2, Shell("kill -15 $$")).code(), SIGTERM);
}

TEST_F(LocalLauncherTest, SaysWhyAProgramCannotBeExecuted) {
  std::ofstream(Path("text")) << "no program\n";
  std::ofstream(Path("garbage")) << "no program either\n";
  std::filesystem::permissions(Path("garbage"), std::filesystem::perms::owner_all);
  const auto launcher = Launcher();
  uint64_t incarnation = 0;
  for (const auto& [program, why] :
       std::vector<std::pair<std::string, std::string>>{{"/no/such/program", "No such file"},
                                                        {"no-such-program", "No such file"},
                                                        {Path("text"), "Permission denied"},
                                                        {Path("garbage"), "Exec format error"},
                                                        {folder_.path(), "Permission denied"}}) {
    const ProcessEnd end = RunToItsEnd(*launcher, 0, ++incarnation, {program, "argument"});
    EXPECT_EQ(end.cause(), ProcessEnd::NOT_STARTED) << program;
    EXPECT_EQ(end.detail(), program + " cannot be executed: " + why +
                                (why == "No such file" ? " or directory" : ""));
  }
}

TEST_F(LocalLauncherTest, FindsAProgramAsAShellDoes) {
  const auto launcher = Launcher();
  EXPECT_EQ(RunToItsEnd(*launcher, 0, 1, {"false"}).code(), 1);
}

TEST_F(LocalLauncherTest, StartsAnIncarnationOnceHoweverOftenItIsTold) {
  const std::vector<std::string> command = Shell("echo x >> " + Path("count"));
  const auto launcher = Launcher();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(launcher->Start(Order(0, 1, command)).ok());
  WaitForEnd(*launcher, 0, 1);
  const auto no_shim_is_left = [] { return OwnChildren().empty(); };
  EXPECT_TRUE(WaitUntil(no_shim_is_left));
  EXPECT_TRUE(launcher->Start(Order(0, 1, command)).ok());
  EXPECT_TRUE(WaitUntil(no_shim_is_left));
  EXPECT_TRUE(Launcher()->Start(Order(0, 1, command)).ok());
  EXPECT_TRUE(WaitUntil(no_shim_is_left));
  // Nor does a shim that was on its way.
  ChildProcess late({PROCESS_SHIM, Folder(0, 1).path(), "1000", "/bin/sh", "-c", command[2]});
  EXPECT_EQ(late.ReadLine(), std::nullopt);
  EXPECT_EQ(Read(Path("count")), "x\n");
}

TEST_F(LocalLauncherTest, OfTwoAtOnceStartsEachIncarnationOnce) {
  const auto launcher = Launcher();
  ChildProcess first({LAUNCHER_CHILD, "start", PROCESS_SHIM, run_dir()});
  ChildProcess second({LAUNCHER_CHILD, "start", PROCESS_SHIM, run_dir()});
  ASSERT_EQ(first.ReadLine(), "ok");
  ASSERT_EQ(second.ReadLine(), "ok");
  constexpr uint32_t kProcesses = 100;
  for (uint32_t rank = 0; rank < kProcesses; ++rank) {
    const std::string number = std::to_string(rank);
    const std::string order = number + " 1 echo x >> " + Path("count-" + number);
    first.WriteLine(order);
    second.WriteLine(order);
    EXPECT_EQ(first.ReadLine(), "ok");
    EXPECT_EQ(second.ReadLine(), "ok");
  }
  for (uint32_t rank = 0; rank < kProcesses; ++rank) {
    const ProcessEnd end = WaitForEnd(*launcher, rank, 1, kShortGrace);
    EXPECT_EQ(end.cause(), ProcessEnd::EXITED) << rank;
  }
  for (uint32_t rank = 0; rank < kProcesses; ++rank) {
    EXPECT_EQ(Read(Path("count-" + std::to_string(rank))), "x\n") << rank;
  }
}

TEST_F(LocalLauncherTest, TakesOverWhatAnotherHasStarted) {
  auto first = Launcher();
  ASSERT_TRUE(first->Start(Order(0, 1, Shell(UntilThere(Path("go")) + "exit 9"))).ok());
  ASSERT_TRUE(WaitForRunning(*first, 0, 1));
  first = nullptr;
  const auto second = Launcher();
  ASSERT_TRUE(WaitForRunning(*second, 0, 1));
  std::ofstream(Path("go")) << "\n";
  EXPECT_EQ(WaitForEnd(*second, 0, 1).code(), 9);
}

TEST_F(LocalLauncherTest, TakesOverWhatAKilledOneHasStarted) {
  {
    ChildProcess killed({LAUNCHER_CHILD, "start", PROCESS_SHIM, run_dir()});
    ASSERT_EQ(killed.ReadLine(), "ok");
    killed.WriteLine("0 1 " + UntilThere(Path("go")) + "exit 9");
    killed.WriteLine("1 2 exit 8");
    ASSERT_EQ(killed.ReadLine(), "ok");
    ASSERT_EQ(killed.ReadLine(), "ok");
  }
  const auto launcher = Launcher();
  ASSERT_TRUE(WaitForRunning(*launcher, 0, 1));
  EXPECT_EQ(WaitForEnd(*launcher, 1, 2, kShortGrace).code(), 8);
  std::ofstream(Path("go")) << "\n";
  EXPECT_EQ(WaitForEnd(*launcher, 0, 1).code(), 9);
}

TEST_F(LocalLauncherTest, StartsWhatAnotherHadOnlyMadeAFolderFor) {
  const auto launcher = Launcher();
  ASSERT_TRUE(Folder(0, 1).Make().ok());
  EXPECT_FALSE(Find(*launcher, 0, 1));
  EXPECT_EQ(RunToItsEnd(*launcher, 0, 1, Shell("exit 5")).code(), 5);
}

TEST_F(LocalLauncherTest, ReportsAnEndThatNobodySawAsUnknownWhenNothingRunsAnyMore) {
  const auto launcher = Launcher();
  const std::string command = "echo $$ > " + Path("pid") + "; exec sleep 1000";
  ASSERT_TRUE(launcher->Start(Order(0, 1, Shell(command))).ok());
  ASSERT_TRUE(WaitForFile(Path("pid")));
  KillShim(Folder(0, 1));
  const ProcessEnd end = WaitForEnd(*launcher, 0, 1, kShortGrace);
  EXPECT_EQ(end.cause(), ProcessEnd::UNKNOWN);
  EXPECT_FALSE(Runs(Path("pid")));
}

TEST_F(LocalLauncherTest, KillsACommandThatHasOutlivedItsShim) {
  const auto launcher = Launcher();
  const ChildProcess command({"/bin/sleep", "1000"});
  ASSERT_TRUE(Folder(0, 1).Make().ok());
  ASSERT_TRUE(Folder(0, 1).WriteStarted(IdentityOf(command.pid()).value()).ok());
  EXPECT_EQ(WaitForEnd(*launcher, 0, 1).cause(), ProcessEnd::UNKNOWN);
  EXPECT_FALSE(IdentityOf(command.pid()));
}

TEST_F(LocalLauncherTest, LeavesAProcessAloneThatHasTheIdOfOneBeforeARestartOfTheMachine) {
  const auto launcher = Launcher();
  ProcessIdentity command = IdentityOf(getpid()).value();
  command.boot_id = "00000000-0000-0000-0000-000000000000";
  ASSERT_TRUE(Folder(0, 1).Make().ok());
  ASSERT_TRUE(Folder(0, 1).WriteStarted(command).ok());
  EXPECT_EQ(WaitForEnd(*launcher, 0, 1).cause(), ProcessEnd::UNKNOWN);
  command = IdentityOf(getpid()).value();
  --command.start_ticks;
  ASSERT_TRUE(Folder(0, 2).Make().ok());
  ASSERT_TRUE(Folder(0, 2).WriteStarted(command).ok());
  EXPECT_EQ(WaitForEnd(*launcher, 0, 2).cause(), ProcessEnd::UNKNOWN);
}

TEST_F(LocalLauncherTest, StopsAProcessThatAnotherHasStarted) {
  auto first = Launcher();
  ASSERT_TRUE(first->Start(Order(0, 1, Shell(UntilThere(Path("go"))))).ok());
  ASSERT_TRUE(WaitForRunning(*first, 0, 1));
  first = nullptr;
  const auto second = Launcher();
  ASSERT_TRUE(second->Stop(Order(0, 1)).ok());
  EXPECT_EQ(WaitForEnd(*second, 0, 1, kShortGrace).code(), SIGTERM);
  EXPECT_TRUE(second->Stop(Order(0, 1)).ok());
}

TEST_F(LocalLauncherTest, NeverStartsWhatWasStoppedBefore) {
  const auto launcher = Launcher();
  ASSERT_TRUE(launcher->Stop(Order(0, 1)).ok());
  const auto report = Find(*launcher, 0, 1);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->end().cause(), ProcessEnd::SIGNALED);
  EXPECT_EQ(report->end().code(), SIGTERM);
  EXPECT_THAT(report->end().detail(), HasSubstr("before it began"));
  ASSERT_TRUE(Launcher()->Start(Order(0, 1, Shell("echo x > " + Path("ran")))).ok());
  // A shim that another launcher had on its way ends without running it.
  ChildProcess late({PROCESS_SHIM, Folder(0, 1).path(), "1000", "/bin/touch", Path("ran")});
  EXPECT_EQ(late.ReadLine(), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(Path("ran")));
}

TEST_F(LocalLauncherTest, ForgetsWhatIsOverAndKeepsItsLog) {
  const auto launcher = Launcher();
  RunToItsEnd(*launcher, 0, 3, Shell("echo written"));
  RunToItsEnd(*launcher, 1, 4, Shell("exit 0"));
  ASSERT_TRUE(launcher->Forget(Worker(0), 4).ok());
  EXPECT_FALSE(Find(*launcher, 0, 3));
  EXPECT_TRUE(Find(*launcher, 1, 4));
  EXPECT_TRUE(WaitUntil([&] {
    Find(*launcher, 0, 3);
    return !std::filesystem::exists(Folder(0, 3).path());
  }));
  EXPECT_THAT(Read(launcher->LogPath(Worker(0))), HasSubstr("written"));
  EXPECT_EQ(RunToItsEnd(*launcher, 0, 4, Shell("exit 6")).code(), 6);
}

TEST_F(LocalLauncherTest, BeginsALongLogAnewAndKeepsOneOldOne) {
  constexpr auto kMost = static_cast<uintmax_t>(kMostLogBytes);
  const auto launcher = Launcher();
  const std::string log = launcher->LogPath(Worker(0));
  const auto run = [&](uint64_t incarnation) {
    RunToItsEnd(*launcher, 0, incarnation, Shell("echo said by " + std::to_string(incarnation)));
  };
  run(1);
  std::filesystem::resize_file(log, kMost - 1);
  run(2);
  EXPECT_FALSE(std::filesystem::exists(log + ".old")) << "one that was not long";
  EXPECT_GE(std::filesystem::file_size(log), kMost);
  run(3);
  EXPECT_GE(std::filesystem::file_size(log + ".old"), kMost);
  EXPECT_THAT(Read(log), AllOf(HasSubstr("said by 3"), Not(HasSubstr("said by 2"))));
  std::filesystem::resize_file(log, kMost);
  run(4);
  EXPECT_THAT(Read(log), AllOf(HasSubstr("said by 4"), Not(HasSubstr("said by 3"))));
  EXPECT_THAT(Read(log + ".old").substr(0, 4096), HasSubstr("said by 3"));
}

TEST_F(LocalLauncherTest, StartsNothingThatWasForgotten) {
  const auto launcher = Launcher();
  ASSERT_TRUE(launcher->Forget(Worker(0), 7).ok());
  ASSERT_TRUE(launcher->Forget(Worker(0), 2).ok());  // takes nothing back
  const Status status = Launcher()->Start(Order(0, 6, Shell("exit 0")));
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("a newer MasterApp runs this job"));
  // Nor does a shim that was on its way.
  ASSERT_TRUE(Folder(0, 6).Make().ok());
  ChildProcess late({PROCESS_SHIM, Folder(0, 6).path(), "1000", "/bin/touch", Path("ran")});
  EXPECT_EQ(late.ReadLine(), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(Path("ran")));
  EXPECT_EQ(RunToItsEnd(*launcher, 0, 7, Shell("exit 6")).code(), 6);
}

TEST_F(LocalLauncherTest, StopsWhatRunsAlthoughItWasForgotten) {
  const auto launcher = Launcher();
  const std::string command = "echo $$ > " + Path("pid") + "; exec sleep 1000";
  ASSERT_TRUE(launcher->Start(Order(0, 1, Shell(command))).ok());
  ASSERT_TRUE(WaitForFile(Path("pid")));
  ASSERT_TRUE(launcher->Forget(Worker(0), 2).ok());
  EXPECT_TRUE(WaitUntil([&] {
    EXPECT_FALSE(Find(*launcher, 0, 1));
    return !std::filesystem::exists(Folder(0, 1).path());
  }));
  EXPECT_FALSE(Runs(Path("pid")));
}

TEST_F(LocalLauncherTest, LeavesNoZombies) {
  const auto launcher = Launcher();
  constexpr uint32_t kProcesses = 20;
  for (uint32_t rank = 0; rank < kProcesses; ++rank) {
    ASSERT_TRUE(launcher->Start(Order(rank, 1, Shell("exit 0"))).ok());
  }
  for (uint32_t rank = 0; rank < kProcesses; ++rank) WaitForEnd(*launcher, rank, 1);
  EXPECT_TRUE(WaitUntil([] { return OwnChildren().empty(); }));
}

TEST_F(LocalLauncherTest, ReportsAShimThatCannotBeginAsTheEndOfItsProcess) {
  LocalLauncherOptions options = Options();
  options.shim = "/bin/false";
  const auto launcher = LocalLauncher::Create(options);
  ASSERT_TRUE(launcher.ok()) << launcher.status();
  const ProcessEnd end = RunToItsEnd(**launcher, 0, 1, Shell("exit 0"));
  EXPECT_EQ(end.cause(), ProcessEnd::EXITED);
  EXPECT_EQ(end.code(), 1);
  EXPECT_THAT(end.detail(), HasSubstr("/bin/false"));
  EXPECT_TRUE((*launcher)->Start(Order(0, 1, Shell("exit 0"))).ok());
  EXPECT_TRUE(Find(**launcher, 0, 1)->has_end());
}

TEST_F(LocalLauncherTest, SaysThatThereIsNoShim) {
  LocalLauncherOptions options = Options();
  options.shim = "/no/such/ProcessShim";
  const auto launcher = LocalLauncher::Create(options);
  ASSERT_TRUE(launcher.ok()) << launcher.status();
  const Status status = (*launcher)->Start(Order(0, 1, Shell("exit 0")));
  EXPECT_THAT(std::string(status.message()), HasSubstr("/no/such/ProcessShim cannot be executed"));
}

TEST_F(LocalLauncherTest, RefusesAnOrderThatCannotBe) {
  const auto launcher = Launcher();
  ProcessOrder outside = Order(0, 1, Shell("exit 0"));
  outside.mutable_process()->set_group("../../outside");
  for (const ProcessOrder& order :
       {outside, Order(0, 0, Shell("exit 0")), Order(0, 1), Order(0, 1, {""})}) {
    const Status status = launcher->Start(order);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(launcher->Stop(outside)));
  EXPECT_TRUE(absl::IsInvalidArgument(launcher->Forget(outside.process(), 1)));
  EXPECT_THAT(*launcher->Look(), IsEmpty());
}

TEST_F(LocalLauncherTest, SaysWhichFileSomebodyHasEditedAndWhatToDo) {
  const auto launcher = Launcher();
  for (const char* name : {"end", "started"}) {
    ASSERT_TRUE(Folder(0, 1).Make().ok());
    std::ofstream(Folder(0, 1).path() + "/" + name) << "nonsense\n";
    const Status status = launcher->Look().status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(Folder(0, 1).path() + "/" + name + " is"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("remove the folder"));
    Folder(0, 1).Remove();
  }
  EXPECT_TRUE(launcher->Look().ok());
  ASSERT_TRUE(launcher->Forget(Worker(0), 2).ok());
  std::ofstream(run_dir() + "/processes/worker-0/forgotten") << "-2\n";
  const Status status = launcher->Start(Order(0, 5, Shell("exit 0")));
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("processes/worker-0/forgotten is"));
}

}  // namespace
}  // namespace millrace
