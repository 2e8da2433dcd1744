// Notices that a thread makes no progress.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace millrace {

// Calls `on_stall` once, on a thread of its own, when Progress was not called for `limit`. A
// process that was stopped as a whole for so long (SIGSTOP) has made none either.
class StallWatch {
 public:
  // REQUIRES limit > 0. The time begins now.
  StallWatch(std::chrono::milliseconds limit, std::function<void()> on_stall);
  // Waits for `on_stall` if it runs.
  ~StallWatch();
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;

  // Cheap; any thread.
  void Progress() { last_ = std::chrono::steady_clock::now().time_since_epoch(); }

 private:
  void Run();

  const std::chrono::milliseconds limit_;
  const std::function<void()> on_stall_;
  std::atomic<std::chrono::steady_clock::duration> last_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;  // guarded by mutex_
  std::thread thread_;   // last: it uses all of the above
};

}  // namespace millrace
