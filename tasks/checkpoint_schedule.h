// When a shard's next checkpoint is due.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace millrace {

// What a shard's next checkpoint would save.
struct Unsaved {
  uint64_t records = 0;           // of `gradients`
  size_t bytes = 0;               // approximate size
  bool is_short_of_room = false;  // memory for unsaved rows is nearly full
};

// Every `interval`, or after so many records. But writing is to take at most a quarter of the time,
// that of the replicas counted, of which each has about half of the work: where a checkpoint takes
// long, since very many embedding rows change, the next one waits three times as long as it will
// take, and twice as long more for each replica. (The duration is estimated from the last one's, in
// proportion to the bytes, and is at most the last one's.) What is updated again meanwhile is
// written once, so that fewer, larger checkpoints are less work; what they cost is a longer replay
// after a crash, which the bound on records bounds. Not thread-safe.
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
        ended_(now) {}

  // REQUIRES: no checkpoint is running. (A checkpoint without End counts as failed.)
  bool Due(Time now, const Unsaved& unsaved) const {
    if (unsaved.records == 0) return false;
    if (unsaved.records >= records_ || unsaved.is_short_of_room) return true;
    return now - begun_ >= interval_ && now - ended_ >= rest_ * WillTake(unsaved.bytes);
  }
  void Begin(Time now, size_t bytes) {
    begun_ = now;
    begun_bytes_ = bytes;
  }
  void End(Time now) {
    ended_ = now;
    took_ = now - begun_;
    bytes_ = begun_bytes_;
  }

 private:
  Duration WillTake(size_t bytes) const {
    if (bytes >= bytes_) return took_;
    const double part = static_cast<double>(bytes) / static_cast<double>(bytes_);
    return std::chrono::duration_cast<Duration>(part * took_);
  }

  Duration interval_;
  uint64_t records_;
  uint32_t rest_;  // the pause, as a multiple of the time for writing
  // The last checkpoint that began:
  Time begun_;
  size_t begun_bytes_ = 0;
  // The last checkpoint that ended:
  Time ended_;
  Duration took_{0};
  size_t bytes_ = 0;
};

}  // namespace millrace
