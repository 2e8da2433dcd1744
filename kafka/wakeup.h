// A run loop's wait, which several clients can end.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace millrace {

// Thread-safe. A notification before the wait is not lost.
class Wakeup {
 public:
  // A way to wait in which the loop has something to do.
  class Sleeper {
   public:
    // Returns when it has done something, when interrupted since it was called or shortly before,
    // or after `timeout`.
    virtual void Sleep(std::chrono::milliseconds timeout) = 0;
    // Called by any thread, also by the one that sleeps.
    virtual void Interrupt() = 0;

   protected:
    ~Sleeper() = default;
  };

  void Notify() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      notified_ = true;
      if (sleeper_ != nullptr) return sleeper_->Interrupt();
    }
    condition_.notify_one();
  }

  // Returns at once when notified since the last call; at the latest after `timeout`.
  void WaitFor(std::chrono::milliseconds timeout) {
    std::unique_lock<std::mutex> lock(mutex_);
    condition_.wait_for(lock, timeout, [this] { return notified_; });
    notified_ = false;
  }

  // The same, but it waits in `sleeper`, which may return before.
  void WaitFor(std::chrono::milliseconds timeout, Sleeper& sleeper) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (std::exchange(notified_, false)) return;
      sleeper_ = &sleeper;
    }
    sleeper.Sleep(timeout);
    const std::lock_guard<std::mutex> lock(mutex_);
    sleeper_ = nullptr;
    notified_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  bool notified_ = false;
  Sleeper* sleeper_ = nullptr;  // in which the loop waits
};

}  // namespace millrace
