// A shard of another process, followed by its checkpoints.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "base/status.h"
#include "messages/job.pb.h"
#include "runtime/checkpoint_assembler.h"
#include "runtime/kafka/consumer.h"
#include "runtime/shard_task.h"

namespace millrace {

// Has what the shard's last whole checkpoint had: a second or so behind, and never torn. For who
// needs all weights but not to the moment, as evaluations do. Not thread-safe.
class FollowedShard {
 public:
  // `wakeup` is told when there is something to poll; it outlives the shard.
  static StatusOr<std::unique_ptr<FollowedShard>> Create(const JobConfig& config,
                                                         const ServerOptions& options,
                                                         Wakeup* wakeup,
                                                         const std::atomic<bool>& stop);

  // Takes some of what has come, without waiting; returns how many events that were.
  StatusOr<size_t> Poll();
  // Every checkpoint that there was when following began has been read. (A shard that has made
  // none yet is as it was born.)
  bool caught_up() const { return caught_up_; }
  const ServerProcessor& processor() const { return task_.processor(); }

 private:
  explicit FollowedShard(const ServerOptions& options) : task_(options) {}
  Status Take(const ConsumedRecord& record);

  ShardTask task_;
  CheckpointAssembler assembler_;
  std::unique_ptr<PartitionConsumer> consumer_;
  bool caught_up_ = false;
};

}  // namespace millrace
