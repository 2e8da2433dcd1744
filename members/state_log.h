// The checkpoints of a job without servers, which the member in position 0 makes.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/status.h"
#include "durability/checkpoints/checkpointer.h"
#include "durability/checkpoints/kafka_checkpoint_log.h"
#include "kafka/wakeup.h"
#include "messages/job.pb.h"
#include "stores/memory_byte_map.h"

namespace millrace {

// Writes to `parameters`, as a server does for shard 0: a job that has ended is read from there by
// all that reads such jobs. Used by one thread; checkpoints are written on another.
class StateLog {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Fences whoever made the checkpoints before, and reads the last one. `wakeup` is notified when a
  // checkpoint has been written. Errors: the broker's; DataLoss: the topic is damaged.
  static StatusOr<std::unique_ptr<StateLog>> Open(const JobConfig& config, Wakeup* wakeup,
                                                  const std::atomic<bool>& stop);

  // What the topic has.
  const OrderedByteMap& copy() const { return copy_; }

  // Whether the next checkpoint may begin: none is being written, and the last is long enough ago
  // for the time that it has taken.
  bool IsDue(Time now) const { return !checkpointer_.busy() && now >= next_; }
  bool busy() const { return checkpointer_.busy(); }
  // REQUIRES !busy().
  void Begin(Checkpoint checkpoint, uint64_t progress, Time now);
  // The progress of the checkpoint that has become durable since the last call; none: there is
  // none. One that was aborted is logged, and the next one has all of it. Errors:
  // FailedPrecondition: another process has taken over; permanent ones.
  StatusOr<std::optional<uint64_t>> Finished(Time now);
  // The same of the one that is being written, if there is one.
  StatusOr<std::optional<uint64_t>> Wait();

 private:
  StateLog(const JobConfig& config, std::unique_ptr<KafkaCheckpointLog> log, Wakeup* wakeup);
  Status Read(const JobConfig& config, const std::atomic<bool>& stop);
  StatusOr<std::optional<uint64_t>> Take(const std::optional<Checkpointer::Result>& result,
                                         Time now);

  const std::chrono::steady_clock::duration interval_;
  std::unique_ptr<KafkaCheckpointLog> log_;
  MemoryByteMap copy_;
  uint64_t progress_ = 0;  // of the one that is being written
  Time begun_;
  Time next_;
  Checkpointer checkpointer_;  // last: it uses the above
};

}  // namespace millrace
