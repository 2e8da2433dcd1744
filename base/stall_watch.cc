#include "base/stall_watch.h"

#include <utility>

#include "base/check.h"

namespace millrace {

StallWatch::StallWatch(std::chrono::milliseconds limit, std::function<void()> on_stall)
    : limit_(limit), on_stall_(std::move(on_stall)) {
  MILLRACE_CHECK(limit.count() > 0);
  Progress();
  thread_ = std::thread(&StallWatch::Run, this);
}

StallWatch::~StallWatch() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void StallWatch::Run() {
  using std::chrono::steady_clock;
  std::unique_lock lock(mutex_);
  while (!ending_) {
    const steady_clock::time_point due(last_.load() + limit_);
    if (steady_clock::now() >= due) {
      lock.unlock();
      return on_stall_();
    }
    changed_.wait_until(lock, due);
  }
}

}  // namespace millrace
