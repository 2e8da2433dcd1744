// Retries calls to a broker while no broker is reachable.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

#include "base/status.h"

namespace millrace {

// Made from a job's configuration; copies are cheap. `stop` outlives it.
class BrokerRetry {
 public:
  // `timeout_s` 0: no time limit.
  BrokerRetry(const std::atomic<bool>& stop, double timeout_s)
      : stop_(stop), timeout_s_(timeout_s) {}

  bool stopped() const { return stop_; }

  // Calls `call` until it returns anything but Unavailable or DeadlineExceeded. Cancelled when
  // stopped meanwhile; the last error when the timeout has passed.
  template <typename Call>
  auto Run(const Call& call) const -> decltype(call()) {
    const auto begin = std::chrono::steady_clock::now();
    while (true) {
      auto result = call();
      const Status status = StatusOf(result);
      if (!IsAway(status)) return result;
      if (stop_) return absl::CancelledError("stopped while no broker was reachable");
      const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
      if (timeout_s_ > 0 && waited.count() >= timeout_s_) return result;
      // Most calls have waited themselves; those that fail at once must not spin.
      std::this_thread::sleep_for(kPause);
    }
  }

 private:
  static constexpr std::chrono::milliseconds kPause{50};

  static Status StatusOf(const Status& status) { return status; }
  template <typename T>
  static Status StatusOf(const StatusOr<T>& result) {
    return result.status();
  }

  const std::atomic<bool>& stop_;
  double timeout_s_;
};

}  // namespace millrace
