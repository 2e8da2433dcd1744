// Launchers in a cluster of the test's own.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "launcher/kubernetes/kubernetes_launcher.h"
#include "tests/launcher/orders.h"
#include "tests/stores/child_process.h"
#include "tests/stores/temporary_folder.h"

namespace millrace {

// With a cluster of its own (api_server.py), of which no process is left when the test ends.
class KubernetesLauncherFixture : public testing::Test {
 protected:
  static constexpr std::chrono::seconds kPatience{60};
  static constexpr int64_t kLongGrace = 600;  // seconds, longer than any test waits

  explicit KubernetesLauncherFixture(const std::string& kubelet = "--kubelet")
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
  ~KubernetesLauncherFixture() override { EXPECT_EQ(Tell("quit"), "ok"); }

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

}  // namespace millrace
