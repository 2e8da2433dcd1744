#include "metrics/group_progress.h"

#include <algorithm>

namespace millrace {

void GroupExchanges::Fold(const MetricPoint::ServerProgress& point) {
  if (point.groups() <= 1) return;
  const auto [found, is_new] = shards_.try_emplace(ShardId(point.shard()));
  Shard& shard = found->second;
  if (is_new || point.exchanges() != shard.progress.exchanges) {
    shard.updates_shared = point.exchanges() == 0 ? 0 : point.updates();
  }
  const uint64_t shared =
      point.group() == 0 ? point.updates() : std::min(shard.updates_shared, point.updates());
  shard.progress = {.group = point.group(),
                    .rounds = point.rounds(),
                    .exchanges = point.exchanges(),
                    .unshared_updates = point.updates() - shared,
                    .deltas_taken = point.deltas_taken()};
}

std::vector<GroupProgress> GroupExchanges::groups() const {
  std::map<uint32_t, GroupProgress> groups;
  for (const auto& [id, shard] : shards_) {
    const GroupProgress& one = shard.progress;
    const auto [found, is_new] = groups.try_emplace(one.group, one);
    GroupProgress& all = found->second;
    all.rounds = std::min(all.rounds, one.rounds);
    all.exchanges = std::min(all.exchanges, one.exchanges);
    all.unshared_updates = std::max(all.unshared_updates, one.unshared_updates);
    all.deltas_taken = std::min(all.deltas_taken, one.deltas_taken);
  }
  std::vector<GroupProgress> list;
  list.reserve(groups.size());
  for (const auto& [group, progress] : groups) list.push_back(progress);
  return list;
}

}  // namespace millrace
