#include "durability/replicas/followed_shard.h"

#include <utility>

#include "stores/frozen_rows.h"

namespace millrace {

FollowedShard::FollowedShard(const ServerOptions& options, std::span<const EmbeddingId> ids)
    : options_(options), task_(std::make_unique<ShardTask>(options, store_)) {
  if (!options.embeddings) return;
  for (const EmbeddingId id : ids) row_keys_.insert(EmbeddingRowKey(options.embeddings->table, id));
}

StatusOr<std::unique_ptr<FollowedShard>> FollowedShard::Create(const JobConfig& config,
                                                               const ServerOptions& options,
                                                               std::span<const EmbeddingId> ids,
                                                               Wakeup* wakeup,
                                                               const std::atomic<bool>& stop) {
  std::unique_ptr<FollowedShard> shard(new FollowedShard(options, ids));
  MILLRACE_ASSIGN_OR_RETURN(shard->tail_,
                            ParametersTail::Create(config, options.shard, 0, wakeup, stop));
  return shard;
}

StatusOr<size_t> FollowedShard::Poll() {
  return tail_->Poll([this](CheckpointAssembler::Part part) -> Status {
    std::erase_if(part.entries, [this](const Checkpoint::Entry& entry) {
      return IsEmbeddingRowKey(entry.key) && !row_keys_.contains(entry.key);
    });
    MILLRACE_RETURN_IF_ERROR(store_.Write(BatchOf(std::move(part.entries), part.end)));
    if (!part.end) return absl::OkStatus();
    MILLRACE_RETURN_IF_ERROR(store_.Flush());
    task_ = std::make_unique<ShardTask>(options_, store_);
    return task_->Load();
  });
}

}  // namespace millrace
