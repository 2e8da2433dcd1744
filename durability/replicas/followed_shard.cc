#include "durability/replicas/followed_shard.h"

#include <string>
#include <utility>

#include "kafka/timeouts.h"
#include "stores/memory_byte_map.h"

namespace millrace {

FollowedShard::FollowedShard(const ServerOptions& options, std::span<const EmbeddingId> ids,
                             Wakeup* wakeup)
    : shard_(options.shard), owner_(wakeup), image_(options, ids) {}

StatusOr<std::unique_ptr<FollowedShard>> FollowedShard::Create(const JobConfig& config,
                                                               const ServerOptions& options,
                                                               std::span<const EmbeddingId> ids,
                                                               Wakeup* wakeup,
                                                               const std::atomic<bool>& stop) {
  std::unique_ptr<FollowedShard> shard(new FollowedShard(options, ids, wakeup));
  const MemoryByteMap nothing;  // reading starts at the first checkpoint
  MILLRACE_ASSIGN_OR_RETURN(
      shard->tail_, ParametersTail::Create(config, options.shard, nothing, &shard->wakeup_, stop));
  shard->thread_ = std::thread([raw = shard.get()] { raw->Run(); });
  return shard;
}

FollowedShard::~FollowedShard() {
  ending_ = true;
  wakeup_.Notify();
  if (thread_.joinable()) thread_.join();
}

StatusOr<bool> FollowedShard::Read(const std::function<void(const View&)>& read) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!status_.ok()) return status_;
  if (has_view_) read(image_.view());
  return has_view_;
}

Status FollowedShard::status() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return status_;
}

void FollowedShard::Run() {
  while (!ending_) {
    StatusOr<size_t> events = Follow();
    if (!events.ok()) {
      const std::lock_guard<std::mutex> lock(mutex_);
      status_ = std::move(events).status();
      owner_->Notify();
      return;
    }
    if (*events == 0) wakeup_.WaitFor(kPoll);
  }
}

StatusOr<size_t> FollowedShard::Follow() {
  const auto with_place = [this](const Status& status) {
    if (!absl::IsDataLoss(status)) return status;
    return absl::DataLossError(
        "parameters, partition " + std::to_string(shard_) + ": a checkpoint of shard " +
        std::to_string(shard_) + " cannot be used here: " + std::string(status.message()) +
        ". If the server of that shard cannot start from it either, restore the topic, or start a "
        "new job (another --job)");
  };
  MILLRACE_ASSIGN_OR_RETURN(const size_t events, tail_->Poll([&](CheckpointAssembler::Part part) {
    return with_place(image_.Take(std::move(part)));
  }));
  // Of several checkpoints that have come only the last is shown.
  if (events > 0 || !image_.is_new() || !tail_->caught_up()) return events;
  MILLRACE_RETURN_IF_ERROR(with_place(image_.Finish()));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    image_.Show();
    has_view_ = true;
  }
  owner_->Notify();
  return events;
}

}  // namespace millrace
