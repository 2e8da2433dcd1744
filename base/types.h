// The field's words, as types.
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace {

using WorkerId = uint32_t;     // logical worker = partition of input-data and of weights
using ShardId = uint32_t;      // server shard = partition of gradients and of parameters
using Clock = uint64_t;        // how many updates of a worker have been accepted
using RowNumber = uint64_t;    // of a row within its partition, from 0, without gaps
using EmbeddingId = uint64_t;  // of a row of an embedding table
using Offset = int64_t;        // of a record in a topic partition

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
