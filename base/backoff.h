// How long to wait before a failed operation is tried again.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace millrace {

// Twice as long with each failure, up to a bound; a failure long after the last one counts as the
// first. The caller passes the time. Not thread-safe.
class Backoff {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  Backoff(Duration first, Duration most) : first_(first), most_(most) {}

  void Failed(Time now) {
    if (failures_ > 0 && now - not_before_ > most_) failures_ = 0;
    wait_ = failures_ == 0 ? first_ : std::min(most_, 2 * wait_);
    ++failures_;
    not_before_ = now + wait_;
  }
  void Succeeded() {
    failures_ = 0;
    not_before_ = Time();
  }

  bool Ready(Time now) const { return now >= not_before_; }
  // In a row.
  uint32_t failures() const { return failures_; }
  // After the last failure.
  Duration wait() const { return wait_; }

 private:
  const Duration first_;
  const Duration most_;
  uint32_t failures_ = 0;
  Duration wait_{0};
  Time not_before_;
};

}  // namespace millrace
