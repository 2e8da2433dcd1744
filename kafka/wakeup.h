// A run loop's wait, which several clients can end.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace millrace {

// Thread-safe. A notification before the wait is not lost.
class Wakeup {
 public:
  void Notify() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      notified_ = true;
    }
    condition_.notify_one();
  }

  // Returns at once when notified since the last call; at the latest after `timeout`.
  void WaitFor(std::chrono::milliseconds timeout) {
    std::unique_lock<std::mutex> lock(mutex_);
    condition_.wait_for(lock, timeout, [this] { return notified_; });
    notified_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  bool notified_ = false;
};

}  // namespace millrace
