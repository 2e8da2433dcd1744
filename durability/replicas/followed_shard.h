// A shard of another process, in memory, as its checkpoints have it.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <set>
#include <span>
#include <string>

#include "base/status.h"
#include "durability/checkpoints/parameters_tail.h"
#include "messages/job.pb.h"
#include "stores/memory_byte_map.h"
#include "tasks/shard_task.h"

namespace millrace {

// Has what the shard's last whole checkpoint had: a second or so behind, and never torn. For who
// needs all weights but not to the moment, as evaluations do. Not thread-safe.
class FollowedShard {
 public:
  // Of the embedding rows it has those of `ids` only: a table may be larger than memory. `wakeup`
  // is told when there is something to poll; it outlives the shard.
  static StatusOr<std::unique_ptr<FollowedShard>> Create(const JobConfig& config,
                                                         const ServerOptions& options,
                                                         std::span<const EmbeddingId> ids,
                                                         Wakeup* wakeup,
                                                         const std::atomic<bool>& stop);

  // Takes some of what has come, without waiting; returns how many events that were.
  StatusOr<size_t> Poll();
  // (A shard that has made no checkpoint yet is as it was born.)
  bool caught_up() const { return tail_->caught_up(); }
  const ServerProcessor& processor() const { return task_->processor(); }

 private:
  FollowedShard(const ServerOptions& options, std::span<const EmbeddingId> ids);

  ServerOptions options_;
  std::set<std::string> row_keys_;
  MemoryByteMap store_;
  std::unique_ptr<ShardTask> task_;  // on the store
  std::unique_ptr<ParametersTail> tail_;
};

}  // namespace millrace
