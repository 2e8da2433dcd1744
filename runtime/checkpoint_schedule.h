// When a shard's next checkpoint is due.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace millrace {

// Every `interval`, or after so many records. But writing takes at most a quarter of the time, that
// of the replicas counted, of which each has about half of the work: where a checkpoint takes long,
// since very many embedding rows change, the next one waits three times as long as the last one
// took, and twice as long more for each replica. What is updated again meanwhile is written once,
// so that fewer, larger checkpoints are less work; what they cost is a longer replay after a crash,
// which the bound on records bounds. Not thread-safe.
class CheckpointSchedule {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  CheckpointSchedule(std::chrono::duration<double> interval, uint64_t records, uint32_t replicas,
                     Time now)
      : interval_(std::chrono::duration_cast<Duration>(interval)),
        records_(records),
        rest_(3 + 2 * replicas),
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
  void End(Time now) { next_ = std::max(begun_ + interval_, now + rest_ * (now - begun_)); }

 private:
  Duration interval_;
  uint64_t records_;
  uint32_t rest_;  // so many times as long as writing took
  Time begun_;
  Time next_;
};

}  // namespace millrace
