// What a snapshot keeps of a shard, and the checkpoint that a shard which starts from one begins
// with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "messages/records.pb.h"
#include "processors/server_processor.h"
#include "stores/embedding_table.h"
#include "stores/ordered_byte_map.h"
#include "tasks/checkpoint.h"
#include "tasks/shard_task.h"

namespace millrace {

// Where a job that starts from a snapshot begins in its stream; or that it is the same job, which
// goes over to another number of shards.
enum class SnapshotStart {
  kSameStream,  // after the rows that the snapshot was trained on: clocks continue
  kNewStream,   // at its first row: weights, optimizer state and embedding rows only
  kSameJob,     // as kSameStream; with the workers that the job has by now
};

// The state of a shard at its cut, without the messages that are under way, which the workers
// repeat.
ShardState SnapshotStateFrom(const ServerProcessor& processor);

// Visits the embedding rows of a shard's store, but those that have expired at `now_ms`. `floats`
// are the values and then the optimizer's values: zeros in a row that is not admitted yet.
using SnapshotRowVisit = std::function<Status(EmbeddingId id, const EmbeddingRowHead& head,
                                              std::span<const float> floats)>;
Status VisitSnapshotRows(const EmbeddingTable& table, const EmbeddingTableOptions& options,
                         const OrderedByteMap& store, int64_t now_ms,
                         const SnapshotRowVisit& visit);

// Whether a shard of a job that starts from a snapshot begins with it: it has not started yet.
// `begin`: of `gradients`. (A shard that has lost its copies may stand before the beginning: then
// it is lost.)
bool BeginsWithSnapshot(const ShardTask& task, Offset begin);

// Collects the parts of a snapshot, whatever number of shards wrote it, and makes the shard as it
// is at the start of the job: its first checkpoint, at position 0. Not thread-safe.
class FirstCheckpoint {
 public:
  FirstCheckpoint(const ServerOptions& options, SnapshotStart start);

  // The shard's keys; none: it has embedding rows only.
  KeyRange range() const { return options_.range; }
  // The weights of the keys from `begin` on. Keys of other shards are left out.
  void AddWeights(uint64_t begin, std::span<const float> values);
  // Optimizer values per weight.
  size_t slots() const;
  // The same of the optimizer's values of number `slot`. REQUIRES slot < slots().
  void AddSlot(size_t slot, uint64_t begin, std::span<const float> values);
  // Null when the job has none.
  const EmbeddingTable* embeddings() { return processor_.embeddings(); }
  // SnapshotStateFrom(shard `of`).
  void AddState(ShardId of, ShardState saved);
  // As VisitSnapshotRows has it, from the part of shard `of`. A row that is another shard's now is
  // left out. REQUIRES: all states were added.
  void AddRow(ShardId of, EmbeddingId id, EmbeddingRowHead head, std::span<const float> floats);

  // REQUIRES: all parts were added: the state of each shard from 0 on, once; the weights of all of
  // this shard's keys, once; and as many values of each slot, or none: those begin at zero. (How
  // many shards and rows the snapshot has, only its reader knows.) To be called once. DataLoss when
  // the states are not those of a shard of this job.
  StatusOr<Checkpoint> Finish();

 private:
  ShardState StartState() const;
  // The named parameters that have values: those that had some in all shards that had a part of
  // them. Of what was put in some of them only, a trainer is asked once more.
  std::vector<ParameterProgress> StartProgress() const;

  ServerOptions options_;
  SnapshotStart start_;
  ServerProcessor processor_;
  Checkpoint checkpoint_;
  ShardState state_;  // of shard 0
  int64_t seen_ms_ = 0;
  int64_t step_ms_ = 0;
  double shrinkage_ = 0;
  // What was added, for Finish.
  struct Added {
    double shrinkage = 0;
    uint64_t steps = 0;
    std::map<uint32_t, uint64_t> updates{};  // of the named parameters with values, by number
  };
  std::map<ShardId, Added> states_;
  uint64_t weights_ = 0;  // of this shard's keys
  uint64_t slots_ = 0;
  bool is_finished_ = false;
};

// A sealed shard (ShardSeal) of the layout before, by a store that has its last checkpoint. `of`:
// its options. DataLoss when the store has no such shard.
Status AddSealedState(const ServerOptions& of, const OrderedByteMap& store, FirstCheckpoint& first);
// Its weights, the optimizer's values and the embedding rows. REQUIRES, if the job has embedding
// rows: the states of all shards were added.
Status AddSealedValues(const ServerOptions& of, const OrderedByteMap& store,
                       FirstCheckpoint& first);

}  // namespace millrace
