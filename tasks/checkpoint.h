// A checkpoint of a shard, and the only order of the steps that make it durable.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "stores/frozen_rows.h"
#include "stores/ordered_byte_map.h"
#include "stores/row_sweep.h"

namespace millrace {

// Frozen values as of one position between two records; training continues meanwhile.
struct Checkpoint {
  struct Entry {
    std::string key;
    std::string value;
  };
  Offset position = 0;                    // of the next record of `gradients` to fold
  std::string incarnation;                // of the partition: its first checkpoint has it
  std::vector<std::string> expired;       // keys of embedding rows to be removed
  FrozenRows rows;                        // embedding rows that were updated
  std::vector<Entry> entries;             // blocks that were updated, then the state
  std::vector<std::string> dead_letters;  // framed DeadLetters since the last checkpoint
  std::vector<size_t> blocks;             // which blocks the entries hold

  // Finds the expired rows of the store when the checkpoint is written; null: rows do not expire.
  // Shared with the task, which gives it to one checkpoint at a time: only the writer of the
  // checkpoint uses it until the task gets the checkpoint back.
  std::shared_ptr<RowSweep> sweep;
  int64_t time_ms = 0;  // of the log: a row that has expired then is not read again

  // Visits its records of `parameters`: the incarnation, if there is one; expired keys without a
  // value (a tombstone in Kafka); rows, some of which may have been recreated after they expired;
  // then entries. Starts at record number
  // `begin` and ends when `visit` returns false; returns the number visited. A row is encoded when
  // it is visited, since all rows may be as large as the table.
  size_t records() const { return first_row() + rows.size() + entries.size(); }
  size_t first_row() const { return first_expired() + expired.size(); }  // its record's number
  size_t VisitRecords(size_t begin, const FrozenRows::Visit& visit) const;

 private:
  size_t first_expired() const { return incarnation.empty() ? 0 : 1; }
};

// The log that checkpoints are written to. Two implementations: Kafka and memory.
class CheckpointLog {
 public:
  virtual ~CheckpointLog() = default;
  // Appends entries to the shard's partition of `parameters` and the dead letters to theirs, in one
  // transaction. Returns the offset after the last entry, once the commit is confirmed. Aborted:
  // nothing was written, the task may try again with a later checkpoint. FailedPrecondition: a
  // newer instance of this shard has taken over. DataLoss (CheckFollows): nothing was written,
  // since records before `previous_end` were deleted.
  virtual StatusOr<Offset> CommitTransaction(const Checkpoint& checkpoint, Offset previous_end) = 0;
  // Deletes `gradients` below `position`.
  virtual Status TrimGradients(Offset position) = 0;
};

// Checks that `records` records that end at offset `end` begin at or after `previous_end`, where
// the previous checkpoint ended. DataLoss if not: the topic was deleted and recreated while the
// server ran, and one checkpoint must not be taken for the whole shard.
Status CheckFollows(Offset end, size_t records, Offset previous_end);

// Whether a copy that has read `parameters` up to the offset `from` belongs to a partition that
// ends at `end`. OutOfRange: it does not; the topic was deleted and recreated, or has lost its end.
Status CheckCopyFits(Offset from, Offset end);

// Keys of a shard's store other than blocks.
inline constexpr char kStateKeyPrefix[] = "state";  // + number of the chunk, 4 bytes
inline constexpr char kParametersOffsetKey[] = "parameters-offset";
inline constexpr char kIncarnationKey[] = "incarnation";

// The offset up to which a copy has read its partition of `parameters`; 0: nothing.
StatusOr<Offset> ReadParametersOffset(const OrderedByteMap& store);

// A partition of `parameters` that is deleted and recreated may grow beyond the offset of a copy of
// the one before. So each has a random number, its incarnation: the first record of its first
// checkpoint, with a key that no other record has (compaction keeps it). Copies take it over like
// every record.

// Gives an empty copy, whose partition has no checkpoint, the number that its first checkpoint will
// write; a number that it has already stays. REQUIRES: the copy has read nothing.
Status ProposeIncarnation(OrderedByteMap& store, uint64_t number);
// The incarnation that a copy is of; empty: none.
StatusOr<std::string> ReadIncarnation(const OrderedByteMap& store);
// Whether a copy (that has read something) is of the partition whose first checkpoint begins with
// this record; the error is CheckCopyFits'.
Status CheckIncarnation(std::string_view copys, std::string_view first_key,
                        std::string_view first_value);

// Makes one batch for a copy: records of a checkpoint (one without a value removes its key) and,
// with its last records, the offset where the next one begins. A large checkpoint needs several
// batches: until a copy has the last one its offset is unchanged, and applying batches again is
// harmless.
WriteBatch BatchOf(std::vector<Checkpoint::Entry> entries, std::optional<Offset> parameters_end);
// The most bytes of records in such a batch, not counting the last record.
inline constexpr size_t kMostBatchBytes = size_t{4} << 20;
// From so many bytes on, as many as a batch may have, the embedding rows of a checkpoint are a
// sorted run of the store. Of 100 thousand rows of 128 bytes it costs three fifths of the processor
// time that batches through RocksDB's log and buffers cost, compaction included.
inline constexpr size_t kLeastRunBytes = kMostBatchBytes;

// (1) one transaction to `parameters`; (2) after its confirmed commit the local store, batch by
// batch, the transaction's end in the last (many embedding rows are one batch, a sorted run); (3)
// `gradients` may be deleted below the position. Never in another order: the local store must stay
// a prefix of `parameters`, and the log must reach back to the position of any copy that survives.
// A crash between any two steps loses nothing.
class CheckpointRun {
 public:
  // References outlive the run.
  CheckpointRun(Checkpoint checkpoint, CheckpointLog& log, OrderedByteMap& store,
                size_t most_batch_bytes = kMostBatchBytes, size_t least_run_bytes = kLeastRunBytes)
      : checkpoint_(std::move(checkpoint)),
        log_(log),
        store_(store),
        most_batch_bytes_(most_batch_bytes),
        least_run_bytes_(least_run_bytes) {}

  // Takes the next step. Unavailable or DeadlineExceeded: the log's commit had no answer, and the
  // next step asks again. After any other error the run is over and the task gets back what
  // checkpoint() still holds: its blocks' and rows' names and, unless they were committed, its
  // dead letters.
  Status Step();
  bool done() const { return next_ == Next::kNothing; }
  const Checkpoint& checkpoint() const { return checkpoint_; }
  // Returns the checkpoint to its owner. REQUIRES: the run is over.
  Checkpoint TakeCheckpoint();

 private:
  enum class Next { kPrepare, kCommit, kStore, kTrim, kNothing };

  Status TakeStep();
  Status Sweep();
  Status Commit();
  // Writes the next batch. Returns whether it was the last.
  StatusOr<bool> StoreSome();
  Status StoreRun();
  // Whether its rows are a sorted run.
  bool HasRun() const {
    return checkpoint_.rows.size() > 0 && checkpoint_.rows.bytes() >= least_run_bytes_;
  }

  Checkpoint checkpoint_;
  CheckpointLog& log_;
  OrderedByteMap& store_;
  size_t most_batch_bytes_;
  size_t least_run_bytes_;
  Next next_ = Next::kPrepare;
  size_t stored_ = 0;  // records
  Offset parameters_end_ = 0;
  bool has_no_answer_ = false;  // the log's last commit
  bool has_failed_ = false;
};

}  // namespace millrace
