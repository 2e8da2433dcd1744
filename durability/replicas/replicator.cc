#include "durability/replicas/replicator.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "durability/checkpoints/shard_store.h"
#include "kafka/timeouts.h"
#include "stores/store_generation.h"
#include "tasks/checkpoint.h"

namespace millrace {
namespace {

constexpr std::chrono::milliseconds kBeforeTryingAgain(1000);

}  // namespace

Replicator::Replicator(const JobConfig& config, const std::vector<ShardId>& shards,
                       uint64_t generation)
    : config_(config), generation_(generation) {
  replicas_.reserve(shards.size());
  for (const ShardId shard : shards) replicas_.push_back({.shard = shard});
  thread_ = std::thread([this] { Run(); });
}

Replicator::~Replicator() {
  stop_ = true;
  wakeup_.Notify();
  thread_.join();
}

void Replicator::Run() {
  while (!stop_) {
    size_t events = 0;
    for (Replica& replica : replicas_) {
      const auto now = std::chrono::steady_clock::now();
      if (now < replica.not_before) continue;
      const StatusOr<size_t> taken = Poll(replica);
      if (taken.ok()) {
        events += *taken;
      } else if (!stop_) {
        GiveUp(replica, taken.status());
        replica.not_before = now + kBeforeTryingAgain;
      }
    }
    if (events == 0) wakeup_.WaitFor(kPoll);
  }
}

Status Replicator::Open(Replica& replica) {
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<DiskByteMap> store,
                            OpenReplicaStore(config_, replica.shard));
  MILLRACE_ASSIGN_OR_RETURN(const bool is_ours, ClaimForGeneration(*store, generation_));
  if (!is_ours) {
    return absl::OutOfRangeError(  // it may be worth something to somebody
        "it was written by an earlier job of this name, whose topics were deleted since");
  }
  RemoveFrozenReplicas(config_, replica.shard);
  {
    const std::lock_guard<std::shared_mutex> lock(mutex_);
    replica.store = std::move(store);
  }
  MILLRACE_ASSIGN_OR_RETURN(const Offset from, ReadParametersOffset(*replica.store));
  MILLRACE_ASSIGN_OR_RETURN(replica.tail, ParametersTail::Create(config_, replica.shard,
                                                                 *replica.store, &wakeup_, stop_));
  spdlog::info("shard {}: this server keeps a replica, now at offset {} of parameters",
               replica.shard, from);
  return absl::OkStatus();
}

StatusOr<size_t> Replicator::Poll(Replica& replica) {
  if (!replica.tail) MILLRACE_RETURN_IF_ERROR(Open(replica));
  return replica.tail->Poll([&](CheckpointAssembler::Part part) {
    return replica.store->Write(BatchOf(std::move(part.entries), part.end));
  });
}

StatusOr<const Replicator::Replica*> Replicator::Find(
    ShardId shard, const std::shared_lock<std::shared_mutex>& lock) const {
  MILLRACE_CHECK(lock.owns_lock() && lock.mutex() == &mutex_);
  for (const Replica& replica : replicas_) {
    if (replica.shard == shard && replica.store != nullptr) return &replica;
  }
  return absl::NotFoundError("this server keeps no replica of shard " + std::to_string(shard));
}

StatusOr<Offset> Replicator::OffsetOf(ShardId shard) {
  const std::shared_lock<std::shared_mutex> lock(mutex_);
  MILLRACE_ASSIGN_OR_RETURN(const Replica* const replica, Find(shard, lock));
  MILLRACE_ASSIGN_OR_RETURN(const Offset offset, ReadParametersOffset(*replica->store));
  if (offset > 0) return offset;
  return absl::NotFoundError("the replica of shard " + std::to_string(shard) +
                             " has no complete checkpoint yet");
}

StatusOr<std::string> Replicator::Freeze(ShardId shard) {
  const std::shared_lock<std::shared_mutex> lock(mutex_);
  MILLRACE_ASSIGN_OR_RETURN(const Replica* const replica, Find(shard, lock));
  std::string folder = FrozenReplicaFolder(config_, shard, ++frozen_);
  MILLRACE_RETURN_IF_ERROR(replica->store->CopyTo(folder));
  return folder;
}

void Replicator::SetAside(ShardId shard) {
  const StatusOr<std::string> folder = SetReplicaStoreAside(config_, shard);
  if (!folder.ok()) {
    spdlog::warn("{}", std::string(folder.status().message()));
    return;
  }
  spdlog::warn(
      "shard {}: replica: the one of the topic before it was recreated was moved to {}; delete "
      "that folder when it is not needed",
      shard, *folder);
}

void Replicator::GiveUp(Replica& replica, const Status& why) {
  replica.tail.reset();
  {
    const std::lock_guard<std::shared_mutex> lock(mutex_);
    replica.store.reset();
  }
  const bool is_ahead = absl::IsOutOfRange(why);
  const bool is_damaged = absl::IsDataLoss(why);
  spdlog::warn("shard {}: replica: {}{}", replica.shard, TextOf(why),
               is_ahead || is_damaged ? "; it is copied again from parameters"
                                      : "; trying again every second");
  if (is_ahead) SetAside(replica.shard);
  if (!is_damaged) return;
  if (const Status removed = RemoveReplicaStore(config_, replica.shard); !removed.ok()) {
    spdlog::warn("{}", TextOf(removed));
  }
}

}  // namespace millrace
