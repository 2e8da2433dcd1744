// When a shard's checkpoints begin, and what their results mean for it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/backoff.h"
#include "base/status.h"
#include "tasks/checkpoint.h"
#include "tasks/checkpoint_schedule.h"
#include "tasks/shard_task.h"

namespace millrace {

// For who hosts a shard: the checkpoints themselves are run elsewhere, one at a time. Is handed the
// time. Not thread-safe.
class CheckpointCycle {
 public:
  using Time = CheckpointSchedule::Time;

  explicit CheckpointCycle(const CheckpointSchedule& schedule) : schedule_(schedule) {}

  // What is to be saved now; empty: nothing, or it is not time, or the last one was aborted a
  // moment ago. Errors are the task's. REQUIRES, of both: none is under way, that is, Finish was
  // called for each that began.
  StatusOr<std::optional<Checkpoint>> BeginIfDue(ShardTask& task, Time now);
  // The same, whatever the time.
  StatusOr<std::optional<Checkpoint>> Begin(ShardTask& task, Time now);

  enum class End {
    kDurable,
    kAborted,    // nothing is lost: the next one has all that this one had
    kCancelled,  // the process is being stopped: there will be no other
  };
  // Takes what CheckpointRun made of the checkpoint that Begin returned last. Errors, after which
  // the process has to stop: FailedPrecondition, marked, when it was fenced; what is marked as
  // permanent, since no other checkpoint will succeed; the store's.
  StatusOr<End> Finish(ShardTask& task, const Checkpoint& checkpoint, const Status& result,
                       Time now);

  // For a shard that processes nothing until all of it is saved: whether to stop trying, after a
  // checkpoint with this result (kSaves failures in a row, or a stop).
  bool GivesUpSaving(End end);

  // A checkpoint was cancelled.
  bool is_stopped() const { return is_stopped_; }
  // Of checkpoints that were aborted in a row.
  const Backoff& backoff() const { return backoff_; }

  static constexpr int kSaves = 3;  // before one that is to have everything is given up

 private:
  CheckpointSchedule schedule_;
  Backoff backoff_{std::chrono::seconds(1), std::chrono::seconds(60)};
  int failed_saves_ = 0;  // in a row
  bool is_under_way_ = false;
  bool is_stopped_ = false;
};

}  // namespace millrace
