// Gives a shard's task the records of its partition, and decides when it answers all workers.
#pragma once

#include <optional>

#include "base/status.h"
#include "tasks/shard_task.h"
#include "topics/outgoing_record.h"

namespace millrace {

// Between a reader of `gradients` that goes on, and a task that now and then stands still: at the
// cut of a snapshot, until all of it is saved. Not thread-safe.
class ShardFeed {
 public:
  // The task outlives it, and has been told where its replay begins (StartReplay).
  explicit ShardFeed(ShardTask& task) : task_(task) {}

  // Takes the next record; what it makes due is answered by AnswerDue, or at once when it cannot
  // wait. A record that comes while the shard stands at a cut is passed over: LeaveCut says where
  // to read again. Errors are ShardTask's.
  Status Take(const GradientRecord& record, const RecordSink& out);
  // To be called when no more records wait.
  Status AnswerDue(const RecordSink& out) { return task_.AnswerDue(out); }
  bool owes_answers() const { return task_.owes_answers(); }
  bool at_cut() const { return task_.snapshot().has_value(); }
  // Folds what was held at the cut (AnswerDue answers it). Returns the offset to read on from, if
  // records were passed over. REQUIRES at_cut().
  StatusOr<std::optional<Offset>> LeaveCut();

  // The partition may have another leader (ConsumerHandler::on_connection_lost). Returns the offset
  // to read again from, so that the task sees its last record again; empty at a cut, after which
  // LeaveCut returns it.
  std::optional<Offset> ConnectionLost();

  // An answer may be lost: all are said again.
  void AnswersLost() { is_announced_ = false; }
  // Answers everybody once the task has caught up with the log as it was at its start, and when
  // answers were lost; but not at a cut: the answers of that position are made after it. Returns
  // whether that was the first time.
  StatusOr<bool> Announce(const RecordSink& out);
  // ShardTask::PublishWeights, unless the task replays or stands at a cut.
  StatusOr<bool> PublishWeights(const RecordSink& out);

 private:
  ShardTask& task_;
  bool has_answered_ = false;
  bool is_announced_ = false;
  bool has_passed_over_ = false;  // a record, at this cut
  bool lost_connection_ = false;  // at this cut
};

}  // namespace millrace
