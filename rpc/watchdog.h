// Ends a call that blocks for too long.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace millrace::grpc_internal {

// Has a thread of its own, which calls `bark` once: when a deadline that was set passes, or soon
// after `stop` has become true.
class Watchdog {
 public:
  // References outlive it; `bark` may run on its thread until the destructor returns.
  Watchdog(const std::atomic<bool>& stop, std::function<void()> bark);
  ~Watchdog();

  void Set(std::chrono::steady_clock::time_point deadline);
  void Clear();  // there is no deadline now
  bool barked() const { return barked_; }

 private:
  void Run();

  const std::atomic<bool>& stop_;
  const std::function<void()> bark_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  bool ending_ = false;
  std::atomic<bool> barked_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace millrace::grpc_internal
