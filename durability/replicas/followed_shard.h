// A shard of another process, in memory, as of its last checkpoint.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>

#include "base/status.h"
#include "base/types.h"
#include "durability/checkpoints/parameters_tail.h"
#include "kafka/wakeup.h"
#include "messages/job.pb.h"
#include "tasks/shard_image.h"

namespace millrace {

// Holds the shard's last complete checkpoint, which is about a second old and always consistent.
// For evaluations, which need all weights but not the newest. Reads and decodes on a thread of its
// own, since a shard may be large; its functions are for the owner's thread.
class FollowedShard {
 public:
  using View = ShardImage::View;

  // It holds the embedding rows of `ids` (ascending, distinct) only: a table may be larger than
  // memory. `wakeup` is notified when there is a new view; it outlives the shard, as `config` does.
  static StatusOr<std::unique_ptr<FollowedShard>> Create(const JobConfig& config,
                                                         const ServerOptions& options,
                                                         std::span<const EmbeddingId> ids,
                                                         Wakeup* wakeup,
                                                         const std::atomic<bool>& stop);
  ~FollowedShard();

  // Calls `read` with the last checkpoint, which is shown until `read` returns: it should be quick.
  // False, without a call, until every checkpoint that existed when this object was created has
  // been read. (A shard without a checkpoint is as it was initialized.) Errors: those of
  // ParametersTail, and DataLoss when a checkpoint cannot be used; they last.
  StatusOr<bool> Read(const std::function<void(const View&)>& read) const;
  // The error, if there is one.
  Status status() const;

 private:
  FollowedShard(const ServerOptions& options, std::span<const EmbeddingId> ids, Wakeup* wakeup);

  void Run();
  // Takes some of the received records; shows the last checkpoint when there are no more. Returns
  // the number of events.
  StatusOr<size_t> Follow();

  const ShardId shard_;
  Wakeup* const owner_;
  ShardImage image_;                      // used by thread_ only; its view is guarded by mutex_
  std::unique_ptr<ParametersTail> tail_;  // used by thread_ only
  Wakeup wakeup_;

  mutable std::mutex mutex_;
  Status status_ = absl::OkStatus();  // guarded by mutex_
  bool has_view_ = false;             // guarded by mutex_
  std::atomic<bool> ending_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace millrace
