// Which server keeps replicas of which shards: the next M in the ring.
#pragma once

#include <cstdint>
#include <vector>

#include "base/types.h"

namespace millrace {

// The shards of which a server that hosts `hosted` keeps replicas: PS(i) is followed by PS((i + 1)
// mod N) .. PS((i + M) mod N). Ascending, without its own.
std::vector<ShardId> ReplicatedBy(const std::vector<ShardId>& hosted, uint32_t shards,
                                  uint32_t replicas);

// The number of replicas that a shard lacks because several of its followers are the same server,
// which hosts `hosted`: it keeps one copy of a shard, and no replica of those that it hosts.
uint32_t ReplicasMissing(ShardId shard, const std::vector<ShardId>& hosted, uint32_t shards,
                         uint32_t replicas);

}  // namespace millrace
