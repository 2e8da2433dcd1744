// Reads what a store has of a shard.
#pragma once

#include <optional>

#include "base/status.h"
#include "base/types.h"
#include "messages/records.pb.h"
#include "processors/server_processor.h"
#include "stores/ordered_byte_map.h"

namespace millrace {

// Loads the blocks and the state of the shard's last checkpoint in the store into the processor,
// and returns the state; none: the store is the copy of a job that has not begun. DataLoss when
// records are missing or damaged, or are another job's; the processor must not be used then.
// REQUIRES: nothing has been processed or loaded.
StatusOr<std::optional<ShardState>> LoadSavedShard(const OrderedByteMap& store, ShardId shard,
                                                   ServerProcessor& processor);

}  // namespace millrace
