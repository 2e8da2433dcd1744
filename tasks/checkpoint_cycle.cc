#include "tasks/checkpoint_cycle.h"

#include <string>

#include "base/check.h"
#include "base/error_marks.h"

namespace millrace {

StatusOr<std::optional<Checkpoint>> CheckpointCycle::BeginIfDue(ShardTask& task, Time now) {
  MILLRACE_CHECK(!is_under_way_);
  if (is_stopped_ || !backoff_.Ready(now)) return std::optional<Checkpoint>();
  if (!schedule_.Due(now, task.unsaved())) return std::optional<Checkpoint>();
  return Begin(task, now);
}

StatusOr<std::optional<Checkpoint>> CheckpointCycle::Begin(ShardTask& task, Time now) {
  MILLRACE_CHECK(!is_under_way_);
  const size_t bytes = task.unsaved().bytes;
  MILLRACE_ASSIGN_OR_RETURN(std::optional<Checkpoint> checkpoint, task.BeginCheckpoint());
  is_under_way_ = checkpoint.has_value();
  if (checkpoint) schedule_.Begin(now, bytes);
  return checkpoint;
}

StatusOr<CheckpointCycle::End> CheckpointCycle::Finish(ShardTask& task,
                                                       const Checkpoint& checkpoint,
                                                       const Status& result, Time now) {
  MILLRACE_CHECK(is_under_way_);
  is_under_way_ = false;
  schedule_.End(now);
  if (result.ok()) {
    task.CheckpointDone(checkpoint);
    backoff_.Succeeded();
    return End::kDurable;
  }
  task.CheckpointFailed(checkpoint);
  const std::string why(result.message());
  if (absl::IsCancelled(result)) {
    is_stopped_ = true;
    return End::kCancelled;
  }
  const std::string shard = "shard " + std::to_string(task.shard());
  if (IsPermanent(result)) {
    return WithText(result, shard + ": no checkpoint can be written: " + why +
                                ". Give this user Write on the topics parameters and "
                                "dead-letter and on the transactional id, and let both topics "
                                "take records of 1 MiB (max.message.bytes)");
  }
  if (IsFenced(result)) {
    return WithText(result,
                    shard +
                        " was taken over by another process (or a checkpoint took longer than "
                        "transaction.timeout.ms); this process stops. Give each shard to one "
                        "process (--server-ids). Kafka's reason: " +
                        why);
  }
  if (!absl::IsAborted(result)) return result;
  backoff_.Failed(now);
  return End::kAborted;
}

bool CheckpointCycle::GivesUpSaving(End end) {
  failed_saves_ = end == End::kDurable ? 0 : failed_saves_ + 1;
  if (!is_stopped_ && failed_saves_ < kSaves) return false;
  failed_saves_ = 0;
  return true;
}

}  // namespace millrace
