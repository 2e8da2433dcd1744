// Assigns rows to workers and keys to shards. The only place that defines this.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"

namespace millrace {

// Accepted row i of the stream (from 0, over all epochs) is row i / workers of partition
// i mod workers: exact round robin, so that no worker starves and row numbers have no gaps.
struct RowPlace {
  WorkerId worker = 0;
  RowNumber row = 0;
  bool operator==(const RowPlace&) const = default;
};
RowPlace PlaceOfRow(uint64_t stream_row, uint32_t workers);
// The inverse.
uint64_t StreamRow(RowPlace place, uint32_t workers);
// How many of the first `stream_rows` rows are in a worker's partition.
RowNumber RowsOfWorker(uint64_t stream_rows, WorkerId worker, uint32_t workers);

// Shard s of `shards` owns a contiguous range of [0, keys); every key has one owner, and no range
// is longer than another by more than one key. REQUIRES shard < shards.
KeyRange RangeOfShard(ShardId shard, uint32_t shards, uint64_t keys);

// The owner of an embedding row. Ids may be anything, so they are spread by a hash.
ShardId ShardOfEmbedding(EmbeddingId id, uint32_t shards);
// The ids of each shard, in their order.
std::vector<std::vector<EmbeddingId>> SplitByShard(std::span<const EmbeddingId> ids,
                                                   uint32_t shards);

}  // namespace millrace
