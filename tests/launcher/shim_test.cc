#include "launcher/shim.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "launcher/incarnation_folder.h"
#include "tests/launcher/launch_test.h"
#include "tests/stores/child_process.h"

namespace millrace {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

using ShimTest = LaunchTest;

TEST_F(ShimTest, GivesTheCommandItsLogAndNoOtherFile) {
  const Descriptor left_open(open("/dev/null", O_RDONLY));  // also for programs that are executed
  const auto launcher = Launcher();
  RunToItsEnd(*launcher, 0, 1, Shell("exec ls /proc/self/fd > " + Path("files")));
  EXPECT_EQ(Read(Path("files")), "0\n1\n2\n3\n");  // the last is that of the folder itself
  RunToItsEnd(*launcher, 0, 2, Shell("exec readlink /proc/self/fd/0 > " + Path("input")));
  EXPECT_EQ(Read(Path("input")), "/dev/null\n");
}

TEST_F(ShimTest, WritesToTheLogWhatBeginsAndHowItEnds) {
  const auto launcher = Launcher();
  RunToItsEnd(*launcher, 0, 1, Shell("echo to output; echo to errors >&2; exit 3"));
  RunToItsEnd(*launcher, 0, 2, Shell("kill -9 $$"));
  const std::string time = "[0-9-]+T[0-9:]+Z ";
  const std::string log = Read(launcher->LogPath(Order(0, 1).process()));
  EXPECT_THAT(log, ContainsRegex(time +
                                 "worker-0, incarnation 1: begins: /bin/sh -c echo to .*\n"
                                 "to output\nto errors\n" +
                                 time + "worker-0, incarnation 1: ended with exit code 3\n" + time +
                                 "worker-0, incarnation 2: begins: .*\n" + time +
                                 "worker-0, incarnation 2: ended by signal 9 \\(Killed\\)\n"));
  EXPECT_EQ(std::filesystem::status(launcher->LogPath(Order(0, 1).process())).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(ShimTest, GivesTheCommandTheEnvironmentAndTheFolderOfTheLauncher) {
  setenv("MILLRACE_TEST_WORD", "spoken", 1);
  const auto launcher = Launcher();
  RunToItsEnd(*launcher, 0, 1, Shell("echo $MILLRACE_TEST_WORD $(pwd -P) > " + Path("said")));
  unsetenv("MILLRACE_TEST_WORD");
  EXPECT_EQ(Read(Path("said")), "spoken " + std::filesystem::current_path().string() + "\n");
}

TEST_F(ShimTest, GivesTheCommandNoBlockedOrIgnoredSignals) {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const auto pipe_handler = signal(SIGPIPE, SIG_IGN);
  const auto hang_up_handler = signal(SIGHUP, SIG_IGN);
  const auto launcher = Launcher();
  RunToItsEnd(*launcher, 0, 1, {"grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"});
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  signal(SIGPIPE, pipe_handler);
  signal(SIGHUP, hang_up_handler);
  // (Signals 32 and 33 are those of the C library, which gives nobody access to them.)
  EXPECT_THAT(Read(launcher->LogPath(Order(0, 1).process())),
              ContainsRegex("SigBlk:\t0000000000000000\nSigIgn:\t0000000[01][08]0000000\n"));
}

TEST_F(ShimTest, RunsTheCommandInASessionOfItsOwn) {
  const auto launcher = Launcher();
  RunToItsEnd(*launcher, 0, 1, Shell("exec cat /proc/self/stat > " + Path("stat")));
  std::istringstream fields(Read(Path("stat")));
  std::string name;
  std::string state;
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  fields >> pid >> name >> state >> parent >> group >> session;
  EXPECT_EQ(group, pid);
  EXPECT_EQ(session, parent);
  EXPECT_NE(session, getsid(0));
}

TEST_F(ShimTest, LetsAStoppedCommandEndInItsOwnWay) {
  const auto launcher = Launcher();
  const std::string command =
      "trap 'exit 7' TERM; echo > " + Path("ready") + "; while :; do sleep 0.01; done";
  ASSERT_TRUE(launcher->Start(Order(0, 1, Shell(command))).ok());
  ASSERT_TRUE(WaitForFile(Path("ready")));
  ASSERT_TRUE(launcher->Stop(Order(0, 1)).ok());
  const ProcessEnd end = WaitForEnd(*launcher, 0, 1);
  EXPECT_EQ(end.cause(), ProcessEnd::EXITED);
  EXPECT_EQ(end.code(), 7);
}

TEST_F(ShimTest, KillsAfterTheGraceTimeWhatDoesNotEnd) {
  const auto launcher = Launcher(kShortGrace);
  const std::string command =
      "trap '' TERM; sleep 1000 & echo $! > " + Path("pid") + "; while :; do sleep 0.01; done";
  ASSERT_TRUE(launcher->Start(Order(0, 1, Shell(command))).ok());
  ASSERT_TRUE(WaitForFile(Path("pid")));
  ASSERT_TRUE(launcher->Stop(Order(0, 1)).ok());
  const ProcessEnd end = WaitForEnd(*launcher, 0, 1);
  EXPECT_EQ(end.cause(), ProcessEnd::SIGNALED);
  EXPECT_EQ(end.code(), SIGKILL);
  EXPECT_EQ(end.detail(), "it had not ended 100 ms after SIGTERM");
  EXPECT_FALSE(Runs(Path("pid")));
}

TEST_F(ShimTest, PassesTheFirstOfManySignals) {
  const auto launcher = Launcher(std::chrono::milliseconds(500));
  const std::string command = "trap 'echo x >> " + Path("signals") + "' TERM; echo > " +
                              Path("ready") + "; while :; do sleep 0.01; done";
  ASSERT_TRUE(launcher->Start(Order(0, 1, Shell(command))).ok());
  ASSERT_TRUE(WaitForFile(Path("ready")));
  ASSERT_TRUE(launcher->Stop(Order(0, 1)).ok());
  ASSERT_TRUE(WaitForFile(Path("signals")));
  ASSERT_TRUE(launcher->Stop(Order(0, 1)).ok());
  EXPECT_EQ(WaitForEnd(*launcher, 0, 1).code(), SIGKILL);
  EXPECT_EQ(Read(Path("signals")), "x\n");
}

TEST_F(ShimTest, TakesOtherSignalsToEndForTheSame) {
  const auto launcher = Launcher();
  uint64_t incarnation = 0;
  for (const int number : {SIGHUP, SIGINT}) {
    ++incarnation;
    ASSERT_TRUE(launcher->Start(Order(0, incarnation, {"sleep", "1000"})).ok());
    ASSERT_TRUE(WaitForRunning(*launcher, 0, incarnation));
    EXPECT_EQ(SendSignal(Folder(0, incarnation).OpenShim().value(), number), 0);
    EXPECT_EQ(WaitForEnd(*launcher, 0, incarnation).code(), SIGTERM);
  }
}

TEST_F(ShimTest, PassesTheSignalToWhatTheCommandHasStarted) {
  const auto launcher = Launcher();
  ASSERT_TRUE(
      launcher->Start(Order(0, 1, Shell("sleep 1000 & echo $! > " + Path("pid") + "; wait"))).ok());
  ASSERT_TRUE(WaitForFile(Path("pid")));
  ASSERT_TRUE(launcher->Stop(Order(0, 1)).ok());
  EXPECT_EQ(WaitForEnd(*launcher, 0, 1).code(), SIGTERM);
  EXPECT_FALSE(Runs(Path("pid")));
}

TEST_F(ShimTest, AsksAtTheCommandsEndWhatHasASessionOfItsOwn) {
  const auto launcher = Launcher();  // with a grace time longer than any test waits
  ASSERT_TRUE(
      launcher
          ->Start(Order(
              0, 1, Shell("setsid sh -c 'echo $$ > " + Path("pid") + "; exec sleep 1000' & wait")))
          .ok());
  ASSERT_TRUE(WaitForFile(Path("pid")));
  ASSERT_TRUE(launcher->Stop(Order(0, 1)).ok());
  EXPECT_EQ(WaitForEnd(*launcher, 0, 1).code(), SIGTERM);
  EXPECT_FALSE(Runs(Path("pid")));
}

TEST_F(ShimTest, ReportsAnEndWhenNothingThatTheCommandHasStartedRunsAnyMore) {
  const auto launcher = Launcher();
  EXPECT_EQ(RunToItsEnd(*launcher, 0, 1, Shell("sleep 1000 & echo $! > " + Path("pid"))).code(), 0);
  EXPECT_FALSE(Runs(Path("pid")));
  // Also if that has a session of its own.
  const std::string aside = "setsid sh -c 'echo $$ > " + Path("aside") + "; exec sleep 1000' & ";
  const std::string wait = "while [ ! -s " + Path("aside") + " ]; do sleep 0.01; done; ";
  EXPECT_EQ(RunToItsEnd(*launcher, 0, 2, Shell(aside + wait + "exit 4")).code(), 4);
  EXPECT_FALSE(Runs(Path("aside")));
}

TEST_F(ShimTest, KillsAfterTheGraceTimeWhatTheCommandHasLeft) {
  const auto launcher = Launcher(kShortGrace);
  const std::string left =
      "(trap '' TERM; sh -c 'echo $$ > " + Path("pid") + "; while :; do sleep 0.01; done') & ";
  const std::string wait = "while [ ! -s " + Path("pid") + " ]; do sleep 0.01; done; ";
  EXPECT_EQ(RunToItsEnd(*launcher, 0, 1, Shell(left + wait + "exit 4")).code(), 4);
  EXPECT_FALSE(Runs(Path("pid")));
}

TEST_F(ShimTest, TellsAKillForWantOfMemoryFromAnyOther) {
  std::filesystem::create_directories(Path("root/proc"));
  const std::string counts = Path("root/proc/vmstat");
  for (const bool was_short : {true, false}) {
    std::ofstream(counts) << "nr_free_pages 5\noom_kill 3\n";
    const IncarnationFolder folder = Folder(0, was_short ? 1 : 2);
    ASSERT_TRUE(folder.Make().ok());
    const std::string count = was_short ? "echo oom_kill 4 > " + counts + "; " : "";
    ChildProcess shim({LAUNCHER_CHILD, "shim", folder.path(), Path("root"), count + "kill -9 $$"});
    EXPECT_EQ(shim.ReadLine(), "OK");
    const auto state = folder.Look();
    ASSERT_TRUE(state.ok()) << state.status();
    EXPECT_EQ(state->stage, IncarnationState::Stage::kEnded);
    EXPECT_EQ(state->end.cause(), was_short ? ProcessEnd::OUT_OF_MEMORY : ProcessEnd::SIGNALED);
  }
}

TEST_F(ShimTest, RunsNothingWhoseFolderIsFull) {
  // What cannot be written down must not run: the next launcher would start it again.
  const IncarnationFolder folder = Folder(0, 1);
  ASSERT_TRUE(folder.Make().ok());
  std::filesystem::create_directory(folder.path() + "/started.tmp");
  ChildProcess shim({LAUNCHER_CHILD, "shim", folder.path(), "", "echo x > " + Path("ran")});
  EXPECT_THAT(shim.ReadLine().value_or(""), HasSubstr(folder.path() + "/started"));
  EXPECT_FALSE(std::filesystem::exists(Path("ran")));
}

}  // namespace
}  // namespace millrace
