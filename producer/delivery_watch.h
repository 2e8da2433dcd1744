// Notices that Kafka takes nothing any more. Pure: the clock is the caller's.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace millrace {

class DeliveryWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kReportEvery{5};

  // To be called often: `delivered` records so far, `outstanding` on their way. Returns for how
  // long nothing has moved when it is time to say so: after every 5 s.
  std::optional<std::chrono::seconds> Observe(Time now, uint64_t delivered, uint64_t outstanding);

  // As of the last call of Observe().
  Time::duration stalled() const { return now_ - since_; }

 private:
  std::optional<uint64_t> delivered_;
  Time since_;
  Time now_;
  Time next_report_;
};

}  // namespace millrace
