// A shard as the runtime drives it: recovery, the fold, checkpoints. Pushed, never pulling.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "processors/server_processor.h"
#include "runtime/checkpoint.h"
#include "runtime/outgoing_record.h"
#include "stores/ordered_byte_map.h"

namespace millrace {

// Life of a task; the driver does the reading and sending:
//
//   fence older instances of the shard (init_transactions), before anything is read
//   LoadStore()                                     any copy: the own disk, or nothing
//   AddParameter(...) from parameters_position() to the end of `parameters`
//   FinishParameters()
//   StartReplay(begin, end of `gradients`)
//   ProcessGradient(...) from gradients_position() on; answers are made once offset `end` is
//   reached (replayed() is true), when the driver calls Announce() for all workers
//   BeginCheckpoint() / CheckpointDone() / CheckpointFailed(), any time after FinishParameters
//
// Not thread-safe; no call blocks.
class ShardTask {
 public:
  explicit ShardTask(const ServerOptions& options);

  // An empty store is a copy too: the empty prefix. DataLoss when it belongs to another job.
  Status LoadStore(const OrderedByteMap& store);
  Offset parameters_position() const { return parameters_position_; }
  // A committed record of `parameters`.
  Status AddParameter(std::string_view key, std::string_view value);
  Status FinishParameters();

  // `begin` and `end`: what `gradients` holds now. DataLoss when the position is outside: it is
  // never skipped, since what was deleted there cannot be known.
  Status StartReplay(Offset begin, Offset end);
  // Where reading starts: at the record in front of the position, if it is still there, which must
  // be the one that the checkpoint remembers.
  Offset gradients_position() const { return read_position_; }
  bool replayed() const { return position_ >= replay_end_; }
  uint64_t replayed_records() const { return replayed_records_; }

  // Folds a record of `gradients`; appends answers to `out` unless replaying. DataLoss when the
  // record in front of the position is not the one remembered, or records are missing.
  Status ProcessGradient(const GradientRecord& record, std::vector<OutgoingRecord>& out);
  // Answers everybody from state.
  void Announce(std::vector<OutgoingRecord>& out);

  // Freezes what was updated since the last checkpoint. Empty when nothing was.
  std::optional<Checkpoint> BeginCheckpoint();
  void CheckpointDone(const Checkpoint& checkpoint) { checkpointed_ = checkpoint.position; }
  // The checkpoint's blocks and dead letters count as not saved again.
  void CheckpointFailed(const Checkpoint& checkpoint);

  ShardId shard() const { return options_.shard; }
  const ServerProcessor& processor() const { return processor_; }
  Offset position() const { return position_; }
  uint64_t records_since_checkpoint() const {
    return static_cast<uint64_t>(position_ - checkpoint_begun_);
  }

 private:
  void AppendAnswer(WorkerId worker, std::vector<OutgoingRecord>& out) const;
  void AppendReplacedAnswer(WorkerId worker, std::vector<OutgoingRecord>& out) const;
  void Append(WorkerId worker, uint64_t message_id, const std::string& body,
              std::vector<OutgoingRecord>& out) const;

  ServerOptions options_;
  ServerProcessor processor_;
  ServerOutput output_;  // scratch

  Offset parameters_position_ = 0;
  std::map<std::string, std::string> state_chunks_;  // until FinishParameters
  bool has_blocks_ = false;
  Offset position_ = 0;     // of the next record to fold
  uint64_t last_hash_ = 0;  // of the record in front of it
  Offset read_position_ = 0;
  Offset replay_end_ = 0;
  uint64_t replayed_records_ = 0;
  Offset checkpoint_begun_ = 0;
  Offset checkpointed_ = 0;
  std::vector<std::string> dead_letters_;  // framed, since the last checkpoint
};

}  // namespace millrace
