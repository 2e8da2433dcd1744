// Notices that Kafka accepts no more records. Pure: the caller passes the time.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace millrace {

class DeliveryWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kReportEvery{5};

  // To be called often: `delivered` records so far, `outstanding` on their way. After every 5 s
  // without progress, returns for how long there has been none; else empty.
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
