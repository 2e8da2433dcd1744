// A logical worker as a pure state machine: rows and weights in, updates out; keeps positions.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "models/model.h"
#include "processors/input_data_processor.h"
#include "processors/leased_rows.h"
#include "processors/one_pass_batches.h"
#include "processors/worker_training_processor.h"
#include "stores/ordered_byte_map.h"
#include "stores/training_buffer.h"
#include "tasks/lease_reader.h"
#include "tasks/weights_joiner.h"
#include "topics/outgoing_record.h"

namespace millrace {

// A position in `input-data`: `row` is the first one that is still needed, and the first record at
// or after the offset that has rows not seen before has it, maybe after rows that are not needed;
// `clock` is the worker's clock when the rows before had been counted.
struct InputPosition {
  Offset offset = 0;
  RowNumber row = 0;
  Clock clock = 0;

  // The metadata of a consumer group's commit: "row=N clock=C".
  std::string Metadata() const;
  static std::optional<InputPosition> FromCommit(Offset offset, std::string_view metadata);
  bool operator==(const InputPosition&) const = default;
};

// Life of a task: StartReading(committed position) says where to read `input-data`; or, where rows
// are leased, StartLeased takes what the worker has of them; Start asks the servers (after the
// reader of `weights` is at the end of its partition); then ProcessInput and ProcessWeights in any
// order, Advance after either. Not thread-safe; no call blocks.
class WorkerTask {
 public:
  // `shape` and `model` fit the job's features; `model` is shared and outlives the task. `attempt`
  // is different for every task ever started (it names split messages).
  WorkerTask(const WorkerOptions& options, const RowShape& shape, const Model& model,
             uint64_t attempt);

  // Where to read `input-data`: at the committed position; at the first record of the log
  // (`log_begin`) when that is later, since deleted rows are no longer needed; or where `store`
  // ends (buffer schedule; may be null), when it holds a later state of this worker's buffer.
  StatusOr<Offset> StartReading(const std::optional<InputPosition>& committed, Offset log_begin,
                                const OrderedByteMap* store);

  // In place of StartReading: begins with the worker's newest record of `plan`. Its rows come from
  // several partitions, in the order of its leases, and there is nothing to commit. `tails`: see
  // LeasedRows, which says what else is REQUIRED. REQUIRES one pass.
  void StartLeased(const WorkerLeases& leases, const std::vector<InputState>& tails = {});
  // Takes a later one (LeasedRows::Follow). False: another instance of the worker is further; a new
  // task may begin with the record. REQUIRES StartLeased.
  StatusOr<bool> FollowLeases(const WorkerLeases& leases,
                              const std::vector<InputState>& tails = {});
  // Where the next record is to be read; none: nothing before there is another lease. REQUIRES
  // StartLeased.
  std::optional<LeasedRows::Place> NextLeased() const { return leased_->next(); }
  // The same, unless enough rows are held. REQUIRES StartLeased.
  std::optional<LeaseReader::Wish> WantedLease() const;

  void Start(std::vector<OutgoingRecord>& out);
  // DataLoss on a gap in the row numbers. Where rows are leased, REQUIRES NextLeased() and a record
  // of its partition.
  Status ProcessInput(const InputDataRecord& record);
  // Processes a record of `weights`; an unusable one becomes a dead letter, and counts as an
  // unusable answer.
  void ProcessWeights(Offset offset, std::string_view key, std::string_view value,
                      std::vector<OutgoingRecord>& out);
  // The same of a record that has come by a stream. An error: it is unusable, and nothing has
  // changed.
  Status ProcessStraight(std::string_view key, std::string_view value);
  // Processes a shared record of `weights` (SharedWeightsReader). Returns whether it is news to
  // this worker.
  bool ProcessShared(const std::shared_ptr<const SharedWeights>& shared) {
    return training_->ProcessShared(shared);
  }
  // A shared record that cannot be used, and why: counted like an unusable answer. Of all workers
  // that read it, the first makes it a dead letter.
  void ProcessUnusableShared(Offset offset, std::string_view key, std::string_view value,
                             const Status& why, std::vector<OutgoingRecord>& out);
  // The number of unusable answers, and the reason of the last: a worker that gets no others waits.
  uint64_t unusable_answers() const { return unusable_answers_; }
  const std::string& last_unusable_answer() const { return last_unusable_answer_; }
  Status Advance(std::vector<OutgoingRecord>& out);
  // Repeats unanswered messages; see WorkerTrainingProcessor::Repeat.
  void Repeat(std::vector<OutgoingRecord>& out);

  WorkerId worker() const { return options_.worker; }
  const WorkerOptions& options() const { return options_; }
  bool WantsRows() const { return source_->WantsRows(); }
  bool left() const { return training_->left(); }
  // See WorkerTrainingProcessor.
  uint64_t denied_leaves() const { return training_->denied_leaves(); }
  // Whether every shard has reported this worker's clock.
  bool answered() const { return training_->answered(); }
  std::vector<ShardId> SilentShards() const { return training_->SilentShards(); }
  bool ended() const { return leased_ ? leased_->ended() : input_->ended(); }
  bool owes_update() const { return training_->owes_update(); }
  Clock clock() const { return training_->progress().clock; }
  Offset next_offset() const { return next_offset_; }
  size_t buffered_rows() const { return source_->size(); }
  uint64_t repeated_rows() const {
    return leased_ ? leased_->repeated_rows() : input_->repeated_rows();
  }
  // Evaluations of batches since the last call (WorkerOptions::evaluate_batches).
  std::vector<WorkerOutput::Evaluation> TakeEvaluations();

  // The position to commit: a task that starts there, in any process, continues as this one would.
  // Empty: nothing new to commit, or rows are leased: then the plan says where to start.
  std::optional<InputPosition> CommitPosition() const;

  // `input-data` before this offset may be deleted. The record with the row before the first needed
  // one always stays: it tells a task that starts there the next row number, and a restarted
  // producer the end of the partition.
  std::optional<Offset> TrimPosition() const;

  // Appends the buffer's changes and the reader's position (buffer schedule; else nothing).
  void SaveTo(WriteBatch& batch);

 private:
  // The rows that a record brought: [the run before's end, end).
  struct Run {
    RowNumber end = 0;
    Offset record = 0;
    Offset behind_last = 0;  // behind the record of the run before
  };
  void KnowJoined(const WorkerLeases& leases);
  OnePassOptions BatchOptions() const;
  // Counts an unusable record of `weights`.
  void CountUnusable(int32_t partition, Offset offset, const Status& why);
  // Appends it to `out` as a dead letter.
  void AppendDeadLetter(int32_t partition, Offset offset, std::string_view key,
                        std::string_view value, const Status& why,
                        std::vector<OutgoingRecord>& out) const;
  // Empty, and the buffer is emptied, when the store holds nothing later than `start`.
  StatusOr<BufferPosition> RestoreBuffer(const OrderedByteMap& store, const InputPosition& start);
  SourceBegin FirstNeeded() const;
  // The run that has a row; none: it has not been read. REQUIRES row >= *runs_begin_.
  const Run* RunOf(RowNumber row) const;
  std::string StoreKey() const;
  void Send(WorkerOutput& output, std::vector<OutgoingRecord>& out);

  WorkerOptions options_;
  RowShape shape_;
  const Model& model_;
  uint64_t next_message_id_;
  std::unique_ptr<TrainingBuffer> buffer_;  // buffer schedule only
  std::unique_ptr<BatchSource> source_;
  std::unique_ptr<InputDataProcessor> input_;  // one of the two
  std::unique_ptr<LeasedRows> leased_;
  std::unique_ptr<WorkerTrainingProcessor> training_;
  WeightsJoiner weights_joiner_;
  uint64_t unusable_answers_ = 0;
  std::string last_unusable_answer_;
  WorkerOutput output_;  // scratch
  std::vector<WorkerOutput::Evaluation> evaluations_;

  // Of the rows [runs_begin_, next row), to find a row's offset.
  std::optional<RowNumber> runs_begin_;  // known from the start, or from the first row on
  std::deque<Run> runs_;
  Offset next_offset_ = 0;
};

}  // namespace millrace
