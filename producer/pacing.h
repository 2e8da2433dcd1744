// When each row of the stream is due. Pure: the caller passes the time.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "features/time_value.h"

namespace millrace {

class Pacer {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // As fast as the cluster takes them.
  static Pacer Unpaced() { return Pacer(Kind::kUnpaced, 0); }

  // Row k (from 0) is due k / rows_per_second after the first: a schedule, so that neither late
  // wake-ups nor roundings add up. A late sender catches up at once for kMaxCatchUp; a longer delay
  // (an outage) is not caught up, since that would exceed the requested rate.
  static Pacer AtRate(double rows_per_second) { return Pacer(Kind::kRate, rows_per_second); }
  static constexpr std::chrono::seconds kMaxCatchUp{1};

  // A row recorded t after the first one is due t / speedup after it; each epoch of the stream
  // starts again. Rows out of order have a time in the past, so they do not wait. A late replay
  // catches up as fast as it can, since the recorded source would not have waited.
  static Pacer Replay(double speedup) { return Pacer(Kind::kReplay, speedup); }

  bool unpaced() const { return kind_ == Kind::kUnpaced; }

  // The moment before which the next row must not go. To be called once per row that is sent, in
  // order. `recorded` is needed for a replay only.
  Time Due(Time now, uint32_t epoch, std::optional<RecordedTime> recorded);

 private:
  enum class Kind { kUnpaced, kRate, kReplay };

  Pacer(Kind kind, double factor) : kind_(kind), factor_(factor) {}

  Kind kind_;
  double factor_;  // rows per second, or speedup
  bool started_ = false;
  Time start_;          // of the schedule
  uint64_t rows_ = 0;   // kRate: since start_
  uint32_t epoch_ = 0;  // kReplay: that start_ and first_ belong to
  RecordedTime first_{};
};

}  // namespace millrace
