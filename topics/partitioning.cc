#include "topics/partitioning.h"

#include <algorithm>

#include "base/check.h"
#include "base/hash.h"

namespace millrace {

RowPlace PlaceOfRow(uint64_t stream_row, uint32_t workers) {
  return {WorkerId(stream_row % workers), RowNumber(stream_row / workers)};
}

uint64_t StreamRow(RowPlace place, uint32_t workers) {
  return uint64_t{place.row} * workers + uint64_t{place.worker};
}

RowNumber RowsOfWorker(uint64_t stream_rows, WorkerId worker, uint32_t workers) {
  return RowNumber(stream_rows / workers + (worker < stream_rows % workers ? 1 : 0));
}

KeyRange RangeOfShard(ShardId shard, uint32_t shards, uint64_t keys) {
  MILLRACE_CHECK(shard < shards);
  // The first `keys % shards` shards own one key more.
  const uint64_t base = keys / shards;
  const uint64_t extra = keys % shards;
  const uint64_t begin = shard * base + std::min<uint64_t>(shard, extra);
  return {begin, begin + base + (shard < extra ? 1 : 0)};
}

ShardId ShardOfEmbedding(EmbeddingId id, uint32_t shards) {
  return static_cast<ShardId>(Mix64(id) % shards);
}

std::vector<std::vector<EmbeddingId>> SplitByShard(std::span<const EmbeddingId> ids,
                                                   uint32_t shards) {
  std::vector<std::vector<EmbeddingId>> parts(shards);
  if (shards == 1) {
    parts[0].assign(ids.begin(), ids.end());
    return parts;
  }
  for (const EmbeddingId id : ids) parts[ShardOfEmbedding(id, shards)].push_back(id);
  return parts;
}

}  // namespace millrace
