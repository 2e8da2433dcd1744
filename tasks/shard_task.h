// A shard as a pure state machine: recovery, the fold, checkpoints. The driver passes it records.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "processors/server_processor.h"
#include "stores/ordered_byte_map.h"
#include "tasks/checkpoint.h"
#include "tasks/checkpoint_schedule.h"
#include "topics/message_bytes.h"
#include "topics/outgoing_record.h"

namespace millrace {

// Life of a task; the driver does the reading and sending:
//
//   fence older instances of the shard (init_transactions), before anything is read
//   bring the store, any copy of the shard or an empty one, up to the end of `parameters`
//   Load()
//   StartReplay(begin, end of `gradients`)
//   Fold(...) from gradients_position() on, and now and then AnswerDue(); answers are made once
//   offset `end` is reached (replayed() is true), when the driver calls Announce() for all workers
//   BeginCheckpoint() / CheckpointDone() / CheckpointFailed(), any time after Load
//
// Not thread-safe; no call blocks.
class ShardTask {
 public:
  // The store is a copy of the shard, and outlives the task. The driver writes checkpoints to it.
  ShardTask(const ServerOptions& options, const OrderedByteMap& store);

  // Loads the state from the store. An empty store is the copy of a job that has not started.
  // DataLoss when it belongs to another job.
  Status Load();

  // `begin` and `end`: the present range of `gradients`. DataLoss when the position is outside of
  // it: deleted records are never skipped. (With weights_from_workers a shard of which no copy is
  // left is marked as lost instead.)
  Status StartReplay(Offset begin, Offset end);
  // Where reading starts: at the record before the position, if it still exists, which must be the
  // last record of the checkpoint.
  Offset gradients_position() const { return read_position_; }
  // To be called when the partition may have another leader. Returns where to read again from: at
  // the record before the position, if it still exists, which must be the one that was folded.
  Offset Recheck();
  // All of the replay has been folded, and the log is the one that the checkpoint remembers, or
  // that was read before Recheck: until then nobody is answered.
  bool replayed() const { return is_recognised_ && position_ >= replay_end_; }
  uint64_t replayed_records() const { return replayed_records_; }

  // Folds a record of `gradients`; unless replaying, notes which workers are to be answered.
  // DataLoss when the record before the position is not the one that was folded last, or records
  // are missing. The store's errors are final: create and load another task.
  Status Fold(const GradientRecord& record);
  // Makes the answers that are due, from the state as it is now, each when `out` has taken the one
  // before; at a cut, none. After an error of `out` answers are missing. Of several updates that
  // are folded before it, all workers are answered at once.
  Status AnswerDue(const RecordSink& out);
  bool owes_answers() const {
    return !due_.answers.empty() || !due_.previous.empty() || due_.delta || !due_.groups.empty();
  }
  // One of them is of the clock before, which the next record may end: AnswerDue comes first.
  bool owes_previous_answer() const { return !due_.previous.empty(); }
  // The snapshot at whose cut the shard is. Before anything else is processed, it may be
  // checkpointed, and LeaveCut must be called. None while replaying.
  std::optional<uint64_t> snapshot() const { return snapshot_; }
  // Folds what was held at the cut.
  Status LeaveCut();
  // An answer to these may be lost: the next AnswerDue answers them again, from state.
  void AnswerAgain(std::span<const WorkerId> workers);
  // Answers all workers from state.
  Status Announce(const RecordSink& out);
  // Sends the weights on the shared partition without an answer to anybody, if they are not the
  // last that were sent there: whoever follows a job gets them so where workers are answered one by
  // one. Returns whether it did. REQUIRES replayed(), and no snapshot() under way.
  StatusOr<bool> PublishWeights(const RecordSink& out);
  // The next PublishWeights sends them although they have not changed: the topic keeps its records
  // for some minutes only.
  void PublishWeightsAgain() { shared_changes_.reset(); }

  // Freezes what was updated since the last checkpoint. Empty when nothing was. One at a time.
  // ResourceExhausted when the state is larger than can be saved: nothing has changed then, and
  // nothing may be trimmed.
  StatusOr<std::optional<Checkpoint>> BeginCheckpoint();
  void CheckpointDone(const Checkpoint& checkpoint);
  // The content of the checkpoint counts as unsaved again.
  void CheckpointFailed(const Checkpoint& checkpoint);

  // Its number among the shards of all groups of servers.
  ShardId shard() const { return options_.number(); }
  const ServerProcessor& processor() const { return processor_; }
  Offset position() const { return position_; }
  // Whether a checkpoint has everything that was processed.
  bool saved() const { return checkpointed_ == position_; }
  // The number of records of `gradients` after the last finished checkpoint, which are replayed
  // after a crash.
  uint64_t unsaved_updates() const { return static_cast<uint64_t>(position_ - checkpointed_); }
  // Whether the store had a state: the job has started.
  bool has_state() const { return has_state_; }
  // What BeginCheckpoint would save.
  Unsaved unsaved() const;

 private:
  struct Due {
    std::vector<WorkerId> answers{};             // a worker may stand there twice
    std::vector<ServerOutput::Reply> replies{};  // whoever is in it is in `answers`, too
    std::vector<ServerOutput::PreviousReceiver> previous{};
    // To other groups of servers: the delta, and answers to the deltas of these.
    bool delta = false;
    std::set<uint32_t> groups{};
  };

  // Its partition of `gradients`, as errors name it.
  std::string LogName() const;
  // The error of a record before the position that is not the one that was folded.
  Status OtherRecord(Offset offset) const;
  // Answers one worker on its own partition; several by a shared record, and those of them that
  // want embedding rows by a small record besides.
  Status AppendAnswersTo(std::vector<WorkerId> workers, const RecordSink& out);
  // `answers_to`: see AnswerOptions; without `shared` only.
  Status AppendAnswer(WorkerId worker, std::optional<uint64_t> shared, uint64_t answers_to,
                      const RecordSink& out);
  // How many of the worker's last requests for embedding rows an answer serves: what an answer has
  // served is not said again, unless the worker may have missed it.
  size_t RequestsToServe(WorkerId worker, bool is_reply) const;
  Status AppendShared(std::span<const WorkerId> workers, const RecordSink& out);
  Status AppendPreviousAnswer(const ServerOutput::PreviousReceiver& receiver,
                              const RecordSink& out) const;
  Status AppendDelta(const RecordSink& out) const;
  Status AppendValues(const GroupPeer& group, const RecordSink& out) const;
  // `message_id` tells it from the group's other messages to that one.
  Status AppendToGroup(const GroupPeer& group, uint64_t message_id, const std::string& body,
                       const RecordSink& out) const;
  Status FoldHeld();
  // The entries of a checkpoint that hold the state.
  StatusOr<std::vector<Checkpoint::Entry>> EncodedState() const;
  // Frames those of output_ for the next checkpoint.
  void KeepDeadLetters();
  // Takes what output_ says of answers.
  void KeepDue();
  // Of the state now, as SharedWeights has it.
  uint64_t Version() const { return static_cast<uint64_t>(position_); }
  uint64_t MessageId(uint64_t kind) const;
  // Whom a record of `weights` answers, and on which partition.
  struct Address {
    int32_t partition = 0;
    std::vector<WorkerId> answers{};
    bool is_reply = false;
  };
  Status Append(const Address& to, uint64_t message_id, const MessageBytes& body,
                const RecordSink& out) const;

  ServerOptions options_;
  const OrderedByteMap& store_;
  ServerProcessor processor_;
  ServerOutput output_;  // scratch
  Due due_;
  std::vector<std::optional<Clock>>
      served_;                              // by worker: the clock of the last answer with weights
  std::optional<uint64_t> shared_changes_;  // of the last shared record: the changes before it
  std::optional<uint64_t> snapshot_;
  bool has_state_ = false;  // Load found one

  Offset position_ = 0;     // of the next record to fold
  uint64_t last_hash_ = 0;  // of the record before it
  Offset read_position_ = 0;
  Offset replay_end_ = 0;
  bool is_recognised_ = true;  // the record before the position was seen (again), if it exists
  uint64_t replayed_records_ = 0;
  Offset checkpoint_begun_ = 0;
  Offset checkpointed_ = 0;
  std::vector<std::string> dead_letters_;  // framed, since the last checkpoint
  size_t dead_letter_bytes_ = 0;
  std::shared_ptr<RowSweep> sweep_;  // the running checkpoint's, if there is one
};

}  // namespace millrace
