// A checkpoint of a shard, and the one order in which it becomes durable.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "stores/frozen_rows.h"
#include "stores/ordered_byte_map.h"
#include "stores/row_sweep.h"

namespace millrace {

// Frozen values: made at one position between two records, while training goes on.
struct Checkpoint {
  struct Entry {
    std::string key;
    std::string value;
  };
  Offset position = 0;                    // of the next record of `gradients` to fold
  std::vector<std::string> expired;       // keys of embedding rows to be removed
  FrozenRows rows;                        // embedding rows that were updated
  std::vector<Entry> entries;             // blocks that were updated, then the state
  std::vector<std::string> dead_letters;  // framed DeadLetters since the last checkpoint
  std::vector<size_t> blocks;             // which blocks the entries hold

  // Finds out, when the checkpoint is written, which rows of the store have expired; null: none
  // expire. Shared with the task, which hands it to one checkpoint at a time: who writes the
  // checkpoint uses it until the task gets the checkpoint back.
  std::shared_ptr<RowSweep> sweep;
  int64_t time_ms = 0;  // of the log: no row that has expired then is asked for any more

  // Its records of `parameters`: what has expired, without a value (a tombstone to Kafka); rows, of
  // which one may have come back meanwhile; then entries. Those from the begin-th on are visited
  // until `visit` returns false; returns how many were. A row is encoded when it is visited: all of
  // them at once may be as large as the table.
  size_t records() const { return expired.size() + rows.size() + entries.size(); }
  size_t VisitRecords(size_t begin, const FrozenRows::Visit& visit) const;
};

// Where a checkpoint goes. Two implementations: Kafka and memory.
class CheckpointLog {
 public:
  virtual ~CheckpointLog() = default;
  // Appends entries to the shard's partition of `parameters` and the dead letters to theirs, in
  // one transaction. Returns the offset behind the last entry, once the commit is confirmed.
  // Aborted: nothing was written, the task may try again with a later checkpoint.
  // FailedPrecondition: a newer instance of this shard has taken over. DataLoss (CheckBehind):
  // nothing was written, since what stands in front of `behind` is not there any more.
  virtual StatusOr<Offset> CommitTransaction(const Checkpoint& checkpoint, Offset behind) = 0;
  // `gradients` below `position` may be forgotten.
  virtual Status TrimGradients(Offset position) = 0;
};

// So many records, of which the last would end at `end`, stand behind `behind`, where the
// checkpoint before ended. DataLoss: they do not; the topic was made anew while the server ran, and
// one checkpoint must not pass for all of the shard.
Status CheckBehind(Offset end, size_t records, Offset behind);

// Keys of a shard's store beside its blocks.
inline constexpr char kStateKeyPrefix[] = "state";  // + number of the chunk, 4 bytes
inline constexpr char kParametersOffsetKey[] = "parameters-offset";

// Up to where a copy has read its partition of `parameters`; 0: nothing.
StatusOr<Offset> ReadParametersOffset(const OrderedByteMap& store);

// What a copy takes in one batch: records of a checkpoint (one without a value removes its key)
// and, when with them it is whole, where the next one begins. A large checkpoint comes in several:
// until a copy has the last it says that it has nothing of it, and taken again they do no harm.
WriteBatch BatchOf(std::vector<Checkpoint::Entry> entries, std::optional<Offset> parameters_end);
// Bytes of records in such a batch, not counting the last one.
inline constexpr size_t kMostBatchBytes = size_t{4} << 20;

// (1) one transaction to `parameters`; (2) after its confirmed commit the local store, batch by
// batch, the transaction's end in the last; (3) `gradients` may be deleted behind the position.
// Never another order: the local store must stay a prefix of `parameters`, and the log must reach
// back to the position of whatever copy survives. A crash between any two steps loses nothing.
class CheckpointRun {
 public:
  // References outlive the run.
  CheckpointRun(Checkpoint checkpoint, CheckpointLog& log, OrderedByteMap& store,
                size_t most_batch_bytes = kMostBatchBytes)
      : checkpoint_(std::move(checkpoint)),
        log_(log),
        store_(store),
        most_batch_bytes_(most_batch_bytes) {}

  // Takes the next step. After an error the run is over and the task gets back what checkpoint()
  // still holds: which blocks and rows it was of and, unless they were committed, its dead letters.
  Status Step();
  bool done() const { return next_ == Next::kNothing; }
  const Checkpoint& checkpoint() const { return checkpoint_; }
  // Hands it back. REQUIRES: the run is over.
  Checkpoint TakeCheckpoint() { return std::move(checkpoint_); }

 private:
  enum class Next { kCommit, kStore, kTrim, kNothing };

  Status Sweep();
  // Writes the next batch. Returns whether it was the last.
  StatusOr<bool> StoreSome();

  Checkpoint checkpoint_;
  CheckpointLog& log_;
  OrderedByteMap& store_;
  size_t most_batch_bytes_;
  Next next_ = Next::kCommit;
  size_t stored_ = 0;  // records
  Offset parameters_end_ = 0;
};

}  // namespace millrace
