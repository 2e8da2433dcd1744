// Launchers of masters that are replaced, in a cluster that fails in each way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include "launcher/kubernetes/kubernetes_launcher.h"
#include "tests/launcher/kubernetes/launcher_fixture.h"

namespace millrace {
namespace {

// Masters that are replaced at any time, one of which may go on for a while, carry out orders as a
// master gives them, while the cluster fails in each way. Nothing is begun twice, and what was
// ordered is done in the end.
class KubernetesLauncherAtRandom : public KubernetesLauncherFixture,
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
