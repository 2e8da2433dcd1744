// Real processes under a launcher, in a folder of the test's own. None is left when the test ends.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/incarnation_folder.h"
#include "launcher/local_launcher.h"
#include "launcher/running_process.h"
#include "tests/launcher/orders.h"
#include "tests/stores/temporary_folder.h"

namespace millrace {

class LaunchTest : public ::testing::Test {
 protected:
  static constexpr std::chrono::seconds kLongGrace{600};  // longer than any test waits
  static constexpr std::chrono::milliseconds kShortGrace{100};
  static constexpr std::chrono::seconds kPatience{60};

  ~LaunchTest() override {
    std::error_code none;
    for (const auto& process :
         std::filesystem::directory_iterator(run_dir() + "/processes", none)) {
      for (const auto& folder : std::filesystem::directory_iterator(process.path(), none)) {
        if (folder.is_directory()) KillShim(IncarnationFolder(folder.path().string()));
      }
    }
    EXPECT_TRUE(WaitUntil([] {
      pid_t ended = 0;
      while ((ended = waitpid(-1, nullptr, WNOHANG)) > 0) {
      }
      return ended < 0;  // no child is left
    }));
  }

  std::string run_dir() const { return folder_ / "run"; }
  std::string Path(const std::string& name) const { return folder_ / name; }

  LocalLauncherOptions Options(std::chrono::milliseconds grace = kLongGrace) {
    LocalLauncherOptions options;
    options.run_dir = run_dir();
    options.job = "tests";
    options.epoch = 1;
    options.shim = PROCESS_SHIM;
    options.grace = grace;
    options.on_change = [this] {
      const std::lock_guard lock(mutex_);
      ++changes_;
      changed_.notify_all();
    };
    return options;
  }
  std::unique_ptr<LocalLauncher> Launcher(std::chrono::milliseconds grace = kLongGrace) {
    auto launcher = LocalLauncher::Create(Options(grace));
    EXPECT_TRUE(launcher.ok()) << launcher.status();
    return launcher.ok() ? *std::move(launcher) : nullptr;
  }

  IncarnationFolder Folder(uint32_t rank, uint64_t incarnation) const {
    return IncarnationFolder(run_dir() + "/processes/worker-" + std::to_string(rank) + "/" +
                             std::to_string(incarnation));
  }

  // Asks again whenever the launcher says that something has changed, and after `pause`. With a
  // pause of kPatience only the former counts.
  bool WaitUntil(const std::function<bool()>& is_so,
                 std::chrono::milliseconds pause = std::chrono::milliseconds(5)) {
    const auto give_up = std::chrono::steady_clock::now() + kPatience;
    for (;;) {
      std::unique_lock lock(mutex_);
      const int seen = changes_;
      lock.unlock();
      if (is_so()) return true;
      if (std::chrono::steady_clock::now() >= give_up) return false;
      lock.lock();
      const bool is_told = changed_.wait_for(lock, pause, [&] { return changes_ != seen; });
      if (!is_told && pause >= kPatience) return false;
    }
  }
  bool WaitForRunning(LocalLauncher& launcher, uint32_t rank, uint64_t incarnation) {
    return WaitUntil([&] {
      const auto report = Find(launcher, rank, incarnation);
      return report && !report->has_end();
    });
  }
  // Only a change that the launcher tells of makes it look again, unless a pause is given.
  ProcessEnd WaitForEnd(LocalLauncher& launcher, uint32_t rank, uint64_t incarnation,
                        std::chrono::milliseconds pause = kPatience) {
    std::optional<ProcessReport> report;
    EXPECT_TRUE(WaitUntil(
        [&] {
          report = Find(launcher, rank, incarnation);
          return report && report->has_end();
        },
        pause));
    return report ? report->end() : ProcessEnd();
  }
  ProcessEnd RunToItsEnd(LocalLauncher& launcher, uint32_t rank, uint64_t incarnation,
                         const std::vector<std::string>& command) {
    const Status started = launcher.Start(Order(rank, incarnation, command));
    EXPECT_TRUE(started.ok()) << started;
    return WaitForEnd(launcher, rank, incarnation);
  }

  bool WaitForFile(const std::string& path) {
    return WaitUntil([&] { return Read(path).ends_with('\n'); });
  }
  static bool Runs(const std::string& pid_file) {
    return IdentityOf(std::stoi(Read(pid_file))).has_value();
  }
  void KillShim(const IncarnationFolder& folder) {
    EXPECT_TRUE(WaitUntil([&] {
      const StatusOr<Descriptor> shim = folder.OpenShim();
      EXPECT_TRUE(shim.ok()) << shim.status();
      if (!shim.ok() || !shim->is_open()) return true;
      (void)SendSignal(*shim, SIGKILL);
      return false;
    }));
  }

  TemporaryFolder folder_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int changes_ = 0;  // guarded by mutex_
};

}  // namespace millrace
