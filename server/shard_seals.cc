#include "server/shard_seals.h"

#include <spdlog/spdlog.h>

#include "job/layout_in_force.h"

namespace millrace {
namespace {

constexpr std::chrono::milliseconds kSealLookEvery(200);

}  // namespace

bool ShardSeals::WantsCheckpoint(const HostedShard& hosted) {
  const ShardTask& task = hosted.task();
  if (!task.processor().seal().is_sealed() || published_.contains(hosted.shard())) return false;
  const auto [noticed, is_new] = noticed_.try_emplace(hosted.shard(), task.position());
  if (is_new) {
    spdlog::info("shard {}: has reached the cut after which the job has {} shards", hosted.shard(),
                 task.processor().seal().next_shards());
  }
  return task.position() - static_cast<Offset>(task.unsaved_updates()) < noticed->second;
}

StatusOr<bool> ShardSeals::Advance(const HostedShards& shards, Time now) {
  for (const auto& [shard, hosted] : shards) {
    const ShardSeal& seal = hosted->task().processor().seal();
    if (!seal.is_sealed() || published_.contains(shard) || WantsCheckpoint(*hosted)) continue;
    MILLRACE_RETURN_IF_ERROR(
        registry_.PublishSealed(training_.layout(), shard, seal.next_shards()));
    published_.insert(shard);
  }
  if (published_.empty() || now < next_look_) return false;
  next_look_ = now + kSealLookEvery;
  return IsNextLayoutInForce(registry_, training_.layout());
}

}  // namespace millrace
