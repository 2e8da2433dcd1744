#include "topics/partitioning.h"

#include <algorithm>

#include "base/check.h"
#include "base/hash.h"

namespace millrace {

RowPlace PlaceOfRow(uint64_t stream_row, const Dealing& dealing) {
  const uint64_t turn = stream_row / dealing.rows_per_turn;
  const uint64_t in_turn = stream_row % dealing.rows_per_turn;
  return {WorkerId(turn % dealing.workers),
          RowNumber(turn / dealing.workers * dealing.rows_per_turn + in_turn)};
}

uint64_t StreamRow(RowPlace place, const Dealing& dealing) {
  const uint64_t round = uint64_t{place.row} / dealing.rows_per_turn;
  const uint64_t in_turn = uint64_t{place.row} % dealing.rows_per_turn;
  const uint64_t turn = round * dealing.workers + uint64_t{place.worker};
  return turn * dealing.rows_per_turn + in_turn;
}

RowNumber RowsOfWorker(uint64_t stream_rows, WorkerId worker, const Dealing& dealing) {
  const uint64_t rounds = stream_rows / dealing.rows_per_round();
  const uint64_t in_round = stream_rows % dealing.rows_per_round();
  const uint64_t before = uint64_t{worker} * dealing.rows_per_turn;
  const uint64_t in_turn =
      std::min<uint64_t>(in_round > before ? in_round - before : 0, dealing.rows_per_turn);
  return RowNumber(rounds * dealing.rows_per_turn + in_turn);
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
  if (shards == 1) return 0;  // without a division for each row of a message
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
