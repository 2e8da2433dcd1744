#include "producer/pacing.h"

#include <algorithm>

#include "base/check.h"

namespace millrace {
namespace {

Pacer::Time After(Pacer::Time start, double delay_s) {
  // A hundred years: longer waits are the same, and do not overflow.
  const std::chrono::duration<double> bounded(std::min(delay_s, 3.2e9));
  return start + std::chrono::duration_cast<Pacer::Time::duration>(bounded);
}

}  // namespace

Pacer::Time Pacer::Due(Time now, uint32_t epoch, std::optional<RecordedTime> recorded) {
  switch (kind_) {
    case Kind::kUnpaced:
      return now;
    case Kind::kRate: {
      if (!started_) {
        started_ = true;
        start_ = now;
      }
      Time due = After(start_, static_cast<double>(rows_) / factor_);
      if (now - due > kMaxCatchUp) {
        start_ = now - kMaxCatchUp;
        rows_ = 0;
        due = start_;
      }
      ++rows_;
      return due;
    }
    case Kind::kReplay: {
      MILLRACE_CHECK(recorded.has_value());
      if (!started_ || epoch != epoch_) {
        started_ = true;
        start_ = now;
        epoch_ = epoch;
        first_ = *recorded;
      }
      const std::chrono::duration<double> since_first = *recorded - first_;
      return After(start_, since_first.count() / factor_);
    }
  }
  MILLRACE_CHECK(false);
}

}  // namespace millrace
