#include "topics/partitioning.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/hash.h"
#include "messages/records.pb.h"

namespace millrace {

namespace {

// Rows that are dealt in turns of one size.
struct Stage {
  uint64_t begin = 0;  // each worker has had so many rows before
  uint64_t turn = 1;   // the rows of one
};

// The stage of a row of a worker, by its number. Each stage has whole rounds of all workers.
Stage StageOf(uint64_t row, const Dealing& dealing) {
  const uint64_t first = dealing.rows_per_turn;
  const uint64_t largest = std::bit_floor(dealing.most_rows_per_turn / first);  // 0: none is larger
  const uint64_t times = std::min(std::bit_floor(row / (Dealing::kTurnsOfASize * first)), largest);
  if (times <= 1) return {0, first};
  return {Dealing::kTurnsOfASize * first * times, first * times};
}

}  // namespace

Dealing DealingOf(const JobFeatures& features) {
  const uint32_t dealt = features.dealt_workers();
  return {.workers = dealt > 0 ? dealt : features.workers(),
          .rows_per_turn = std::max(features.rows_per_turn(), 1U),  // 0: of an older version
          .most_rows_per_turn = features.most_rows_per_turn()};
}

RowPlace PlaceOfRow(uint64_t stream_row, const Dealing& dealing) {
  const Stage stage = StageOf(stream_row / dealing.workers, dealing);
  const uint64_t in_stage = stream_row - stage.begin * dealing.workers;
  const uint64_t turn = in_stage / stage.turn;
  const uint64_t in_turn = in_stage % stage.turn;
  return {WorkerId(turn % dealing.workers),
          RowNumber(stage.begin + turn / dealing.workers * stage.turn + in_turn)};
}

uint64_t StreamRow(RowPlace place, const Dealing& dealing) {
  const Stage stage = StageOf(uint64_t{place.row}, dealing);
  const uint64_t in_stage = uint64_t{place.row} - stage.begin;
  const uint64_t turn = in_stage / stage.turn * dealing.workers + uint64_t{place.worker};
  return stage.begin * dealing.workers + turn * stage.turn + in_stage % stage.turn;
}

RowNumber RowsOfWorker(uint64_t stream_rows, WorkerId worker, const Dealing& dealing) {
  if (worker >= dealing.workers) return RowNumber(0);
  const Stage stage = StageOf(stream_rows / dealing.workers, dealing);
  const uint64_t in_stage = stream_rows - stage.begin * dealing.workers;
  const uint64_t rows_per_round = dealing.workers * stage.turn;
  const uint64_t in_round = in_stage % rows_per_round;
  const uint64_t before = uint64_t{worker} * stage.turn;
  const uint64_t in_turn = std::min(in_round > before ? in_round - before : 0, stage.turn);
  return RowNumber(stage.begin + in_stage / rows_per_round * stage.turn + in_turn);
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
