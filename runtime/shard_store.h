// Where the copies of shards stand on a server's disk.
#pragma once

#include <memory>

#include "base/status.h"
#include "base/types.h"
#include "messages/job.pb.h"
#include "stores/ordered_byte_map.h"

namespace millrace {

// The store of a shard that this process hosts. A replica that this process has kept of it becomes
// its store when there is none: every copy is a prefix of `parameters`, so any will do.
StatusOr<std::unique_ptr<OrderedByteMap>> OpenShardStore(const JobConfig& config, ShardId shard);

// The copy that this process keeps of a shard that another one hosts.
StatusOr<std::unique_ptr<OrderedByteMap>> OpenReplicaStore(const JobConfig& config, ShardId shard);
// Forgets it. REQUIRES: it is not open.
Status RemoveReplicaStore(const JobConfig& config, ShardId shard);

// Up to where a copy has read its partition of `parameters`; 0: nothing.
StatusOr<Offset> ParametersOffsetOf(const OrderedByteMap& store);

}  // namespace millrace
