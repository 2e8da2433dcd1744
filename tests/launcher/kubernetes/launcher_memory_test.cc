// What is over is forgotten, and what a killed master has begun is finished or taken away.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "launcher/kubernetes/kubernetes_launcher.h"
#include "tests/launcher/kubernetes/launcher_fixture.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class LauncherMemoryTest : public KubernetesLauncherFixture {};

TEST_F(LauncherMemoryTest, ForgetsWhatIsOver) {
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

TEST_F(LauncherMemoryTest, ForgettingNeverGoesBack) {
  const auto launcher = Launcher();
  const auto older = Launcher();
  EXPECT_TRUE(launcher->Forget(Order(0, 1).process(), 9).ok());
  EXPECT_TRUE(older->Forget(Order(0, 1).process(), 3).ok());
  EXPECT_TRUE(older->Forget(Order(1, 1).process(), 4).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Launcher()->Start(Order(0, 8, Shell("exit 0")))));
  EXPECT_TRUE(absl::IsFailedPrecondition(Launcher()->Start(Order(1, 3, Shell("exit 0")))));
}

TEST_F(LauncherMemoryTest, StopsWhatIsForgottenThoughItRuns) {
  const auto launcher = Launcher();
  ASSERT_TRUE(launcher->Start(Order(0, 1, Shell(UntilThere(Path("never"))))).ok());
  ASSERT_TRUE(WaitForRunning(*launcher, 0, 1));
  EXPECT_TRUE(launcher->Forget(Order(0, 1).process(), 2).ok());
  EXPECT_TRUE(WaitUntil([&] {
    EXPECT_FALSE(Find(*launcher, 0, 1));
    return Names().find(PodOf(0, 1)) == std::string::npos;
  }));
}

TEST_F(LauncherMemoryTest, FinishesAStartThatAKilledMasterHasBegun) {
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

TEST_F(LauncherMemoryTest, TakesAwayWhatAKilledMasterShouldNotHaveMade) {
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

}  // namespace
}  // namespace millrace
