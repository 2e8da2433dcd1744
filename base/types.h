// The field's words, as types.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/id.h"

namespace millrace {

using WorkerId = Id<struct WorkerIdTag, uint32_t>;  // logical worker = partition of input-data
using ShardId =
    Id<struct ShardIdTag, uint32_t>;          // server shard = partition of gradients, parameters
using Clock = Id<struct ClockTag, uint64_t>;  // how many updates of a worker have been accepted
// Of a row within its partition, from 0, without gaps.
using RowNumber = Id<struct RowNumberTag, uint64_t>;
using Offset = Id<struct OffsetTag, int64_t>;  // of a record in a topic partition
// Of a row of an embedding table. A plain integer: messages and kernels hold arrays of them.
using EmbeddingId = uint64_t;

// The key of a message that no worker sends.
inline constexpr WorkerId kNoWorker = UINT32_MAX;

// Keys [begin, end) of the parameter vector. Every range in Millrace is half-open.
struct KeyRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  size_t size() const { return static_cast<size_t>(end - begin); }
  bool operator==(const KeyRange&) const = default;
};

}  // namespace millrace
