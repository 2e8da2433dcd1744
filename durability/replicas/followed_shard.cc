#include "durability/replicas/followed_shard.h"

#include <utility>

#include "kafka/timeouts.h"
#include "stores/frozen_rows.h"

namespace millrace {

FollowedShard::FollowedShard(const ServerOptions& options, std::span<const EmbeddingId> ids,
                             Wakeup* wakeup)
    : options_(options), ids_(ids.begin(), ids.end()), owner_(wakeup) {
  if (!options.embeddings) return;
  for (const EmbeddingId id : ids_)
    row_keys_.insert(EmbeddingRowKey(options.embeddings->table, id));
}

StatusOr<std::unique_ptr<FollowedShard>> FollowedShard::Create(const JobConfig& config,
                                                               const ServerOptions& options,
                                                               std::span<const EmbeddingId> ids,
                                                               Wakeup* wakeup,
                                                               const std::atomic<bool>& stop) {
  std::unique_ptr<FollowedShard> shard(new FollowedShard(options, ids, wakeup));
  MILLRACE_ASSIGN_OR_RETURN(
      shard->tail_,
      ParametersTail::Create(config, options.shard, shard->store_, &shard->wakeup_, stop));
  shard->thread_ = std::thread([raw = shard.get()] { raw->Run(); });
  return shard;
}

FollowedShard::~FollowedShard() {
  ending_ = true;
  wakeup_.Notify();
  if (thread_.joinable()) thread_.join();
}

StatusOr<std::shared_ptr<const FollowedShard::View>> FollowedShard::Latest() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!status_.ok()) return status_;
  return view_;
}

void FollowedShard::Run() {
  while (!ending_) {
    const StatusOr<size_t> events = Poll();
    Status status = events.status();
    // Of several checkpoints that have come only the last is decoded.
    if (status.ok() && *events == 0 && is_new_ && tail_->caught_up()) {
      StatusOr<View> view = Load();
      status = view.status();
      if (view.ok()) {
        is_new_ = false;
        const std::lock_guard<std::mutex> lock(mutex_);
        view_ = std::make_shared<const View>(*std::move(view));
      }
      owner_->Notify();
    }
    if (!status.ok()) {
      const std::lock_guard<std::mutex> lock(mutex_);
      status_ = std::move(status);
      owner_->Notify();
      return;
    }
    if (*events == 0) wakeup_.WaitFor(kPoll);
  }
}

StatusOr<size_t> FollowedShard::Poll() {
  return tail_->Poll([this](CheckpointAssembler::Part part) -> Status {
    std::erase_if(part.entries, [this](const Checkpoint::Entry& entry) {
      return IsEmbeddingRowKey(entry.key) && !row_keys_.contains(entry.key);
    });
    is_new_ = part.end.has_value();  // in the middle of a checkpoint there is nothing to show
    return store_.Write(BatchOf(std::move(part.entries), part.end));
  });
}

StatusOr<FollowedShard::View> FollowedShard::Load() const {
  ShardTask task(options_, store_);
  MILLRACE_RETURN_IF_ERROR(task.Load());
  const ServerProcessor& processor = task.processor();
  View view;
  view.range = processor.shard().range();
  view.weights.assign(processor.shard().weights().begin(), processor.shard().weights().end());
  if (const EmbeddingTable* const table = processor.embeddings()) {
    view.rows.resize(ids_.size() * table->width());
    MILLRACE_RETURN_IF_ERROR(processor.ReadEmbeddings(ids_, view.rows));
  }
  view.all_left = processor.AllLeft();
  return view;
}

}  // namespace millrace
