// A shard of another process, in memory, as of its last checkpoint.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "durability/checkpoints/parameters_tail.h"
#include "kafka/wakeup.h"
#include "messages/job.pb.h"
#include "stores/memory_byte_map.h"
#include "tasks/shard_task.h"

namespace millrace {

// Holds the shard's last complete checkpoint, which is about a second old and always consistent.
// For evaluations, which need all weights but not the newest. Reads and decodes on a thread of its
// own, since a shard may be large; its functions are for the owner's thread.
class FollowedShard {
 public:
  struct View {
    KeyRange range;
    std::vector<float> weights;  // of the range
    std::vector<float> rows;     // of the ids that were asked for, row by row
    bool all_left = false;       // every worker has left the shard
  };

  // It holds the embedding rows of `ids` only: a table may be larger than memory. `wakeup` is
  // notified when there is a new view; it outlives the shard, as `config` does.
  static StatusOr<std::unique_ptr<FollowedShard>> Create(const JobConfig& config,
                                                         const ServerOptions& options,
                                                         std::span<const EmbeddingId> ids,
                                                         Wakeup* wakeup,
                                                         const std::atomic<bool>& stop);
  ~FollowedShard();

  // Null until every checkpoint that existed when this object was created has been read. (A shard
  // without a checkpoint is as it was initialized.) Errors: those of ParametersTail, and DataLoss
  // when a checkpoint cannot be loaded; they last.
  StatusOr<std::shared_ptr<const View>> Latest() const;

 private:
  FollowedShard(const ServerOptions& options, std::span<const EmbeddingId> ids, Wakeup* wakeup);

  void Run();
  // Processes some of the received records; returns the number of events.
  StatusOr<size_t> Poll();
  StatusOr<View> Load() const;

  const ServerOptions options_;
  const std::vector<EmbeddingId> ids_;
  Wakeup* const owner_;
  // Used by thread_ only:
  std::set<std::string> row_keys_;
  MemoryByteMap store_;
  bool is_new_ = true;  // the store ends with a complete checkpoint that the view does not have
  std::unique_ptr<ParametersTail> tail_;
  Wakeup wakeup_;

  mutable std::mutex mutex_;
  Status status_ = absl::OkStatus();  // guarded by mutex_
  std::shared_ptr<const View> view_;  // guarded by mutex_
  std::atomic<bool> ending_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace millrace
