#include "topics/replica_placement.h"

#include <algorithm>
#include <set>

namespace millrace {

std::vector<ShardId> ReplicatedBy(const std::vector<ShardId>& hosted, uint32_t shards,
                                  uint32_t replicas) {
  std::set<ShardId> followed;
  for (const ShardId server : hosted) {
    for (uint32_t distance = 1; distance <= std::min(replicas, shards - 1); ++distance) {
      followed.insert(ShardId((server + shards - distance) % shards));
    }
  }
  for (const ShardId server : hosted) followed.erase(server);
  return {followed.begin(), followed.end()};
}

uint32_t ReplicasMissing(ShardId shard, const std::vector<ShardId>& hosted, uint32_t shards,
                         uint32_t replicas) {
  const auto is_here = [&hosted](ShardId id) {
    return std::ranges::find(hosted, id) != hosted.end();
  };
  uint32_t here = 0;
  for (uint32_t distance = 1; distance <= std::min(replicas, shards - 1); ++distance) {
    if (is_here(ShardId((shard + distance) % shards))) ++here;
  }
  const uint32_t kept = is_here(shard) ? 0 : std::min(here, 1u);
  return here - kept;
}

}  // namespace millrace
