// When a shard's next checkpoint is due.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace millrace {

// Every `interval`, or after so many records. But writing takes at most a quarter of the time:
// where a checkpoint takes long, since very many embedding rows change, the next one waits three
// times as long as the last one took. What is updated again meanwhile is written once, so that
// fewer, larger checkpoints are less work; what they cost is a longer replay after a crash, which
// the bound on records bounds. Not thread-safe.
class CheckpointSchedule {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  CheckpointSchedule(std::chrono::duration<double> interval, uint64_t records, Time now)
      : interval_(std::chrono::duration_cast<Duration>(interval)),
        records_(records),
        begun_(now),
        next_(now + interval_) {}

  // REQUIRES: none is under way. `records`: since the last one began; `memory_is_short`: what is
  // not saved cannot be kept much longer.
  bool Due(Time now, uint64_t records, bool memory_is_short) const {
    return now >= next_ || records >= records_ || memory_is_short;
  }
  void Begin(Time now) {
    begun_ = now;
    next_ = now + interval_;
  }
  void End(Time now) {
    constexpr int kRest = 3;
    next_ = std::max(begun_ + interval_, now + kRest * (now - begun_));
  }

 private:
  Duration interval_;
  uint64_t records_;
  Time begun_;
  Time next_;
};

}  // namespace millrace
