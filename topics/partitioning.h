// Assigns rows to workers and keys to shards. The only place that defines this.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"

namespace millrace {

class JobFeatures;

// How the rows of the stream are dealt to workers 0 to `workers` - 1 of a job, which may have more:
// the first rows_per_turn of them go to worker 0, as many to worker 1, and so on, and after the
// last of these workers to worker 0 again. The turns are
// exact, so that no worker starves and row numbers have no gaps. Neighbours in the stream, which
// tell most about each other, are learnt by one worker, one after the other.
//
// Turns that may become longer double after kTurnsOfASize rounds of all workers (after the first
// size twice as many), until they would have more than most_rows_per_turn. So one that is longer
// has at most a sixteenth of the rows that its worker has had: in a short stream long turns would
// leave workers without rows, and others with those of its end only.
struct Dealing {
  uint32_t workers = 1;             // at least 1
  uint32_t rows_per_turn = 1;       // of the first turns; at least 1
  uint32_t most_rows_per_turn = 0;  // less than rows_per_turn: all turns have these

  // With longer turns workers would only wait longer.
  static constexpr uint32_t kMostRowsPerTurn = 65536;
  static constexpr uint64_t kTurnsOfASize = 16;

  bool operator==(const Dealing&) const = default;
};
Dealing DealingOf(const JobFeatures& features);

// Where an accepted row of the stream (from 0, over all epochs) is: a partition, and its number
// there.
struct RowPlace {
  WorkerId worker = 0;
  RowNumber row = 0;
  bool operator==(const RowPlace&) const = default;
};
RowPlace PlaceOfRow(uint64_t stream_row, const Dealing& dealing);
// The inverse.
uint64_t StreamRow(RowPlace place, const Dealing& dealing);
// How many of the first `stream_rows` rows are in a worker's partition: none, of one that rows are
// not dealt to.
RowNumber RowsOfWorker(uint64_t stream_rows, WorkerId worker, const Dealing& dealing);

// Shard s of `shards` owns a contiguous range of [0, keys); every key has one owner, and no range
// is longer than another by more than one key. REQUIRES shard < shards.
KeyRange RangeOfShard(ShardId shard, uint32_t shards, uint64_t keys);

// The owner of an embedding row. Ids may be anything, so they are spread by a hash.
ShardId ShardOfEmbedding(EmbeddingId id, uint32_t shards);
// The ids of each shard, in their order.
std::vector<std::vector<EmbeddingId>> SplitByShard(std::span<const EmbeddingId> ids,
                                                   uint32_t shards);

}  // namespace millrace
