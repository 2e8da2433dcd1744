// How a worker leaves its job: when its rows are over, or an older instance has left.

#include <algorithm>
#include <string>

#include "processors/worker_training_processor.h"

namespace millrace {

bool WorkerTrainingProcessor::left() const {
  return std::all_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.left; });
}

bool WorkerTrainingProcessor::SomeoneLeft() const {
  return std::any_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.left; });
}

bool WorkerTrainingProcessor::DoubtsLeave(bool again, WorkerOutput& output) {
  bool doubts = false;
  for (ShardId shard = 0; shard < options_.shards; ++shard) {
    Part& part = parts_[shard];
    if (!IsDoubtful(part)) continue;
    doubts = true;
    if (again) part.asked_in_doubt = false;
    AskInDoubt(shard, output);
  }
  return doubts;
}

Status WorkerTrainingProcessor::FollowLeave(WorkerOutput& output) {
  if (!DoubtsLeave(false, output)) {
    if (steps_ != nullptr) steps_->Leave();  // an older instance of the trainer did
    MILLRACE_RETURN_IF_ERROR(CheckLeave());
    LeaveAll(false, output);
  }
  return failed_;
}

// An older instance of this worker may have left, or a zombie of it: where its stream ended.
Status WorkerTrainingProcessor::CheckLeave() {
  const Part* last = nullptr;
  Progress at_leave;
  for (const Part& part : parts_) {
    if (part.left && (last == nullptr || part.clock > last->clock)) last = &part;
    // (One that had lost its state may have counted less.)
    at_leave.rows_end = std::max(at_leave.rows_end, RowNumber(part.message->rows().end()));
  }
  at_leave.clock = last->clock;
  // Or no further rows might be read.
  const bool all_are_there =
      std::ranges::all_of(parts_, [&](const Part& part) { return part.clock == last->clock; });
  if (all_are_there) source_.Forget(progress_);
  const StatusOr<BatchState> next = source_.Next(at_leave, batch_);
  // (How many rounds without rows there were somebody may have made up without any harm.)
  const bool has_new_rows =
      next.ok() && *next == BatchState::kReady && batch_.rows_end > at_leave.rows_end;
  if (!has_new_rows) return absl::OkStatus();
  return absl::FailedPreconditionError(
      options_.gradients_topic + ", partition " +
      std::to_string(options_.PartitionOf(ShardId(last - parts_.data()))) + ": worker " +
      std::to_string(options_.worker) + " has left at clock " + std::to_string(last->clock) +
      ", says the shard, but the worker has not said so, and has rows from " +
      std::to_string(at_leave.rows_end) +
      " on that no update has counted. Another program has written to this topic in its name: "
      "check who may (docs/security.md). A leave is final: start a new job (another --job), from a "
      "snapshot if there is one");
}

void WorkerTrainingProcessor::LeaveAll(bool again, WorkerOutput& output) {
  in_flight_.Clear();
  for (ShardId shard = 0; shard < options_.shards; ++shard) {
    Part& part = parts_[shard];
    if (part.left || (!again && part.leave_sent == part.clock)) continue;
    // What cannot be used may stand behind the last row. (Another shard may have taken the leave of
    // an instance that was killed, and this one has read nothing yet.)
    if (shard == 0 && !source_.HasEnd()) continue;
    part.leave_sent = part.clock;
    // A shard takes a leave only of the clock that it has come to.
    Gradient message = NewMessage();
    message.set_clock(part.clock);
    Gradient::Leave& leave = *message.mutable_leave();
    *leave.mutable_mark() = Mark();
    leave.mutable_joined()->Assign(joined_.begin(), joined_.end());
    if (shard == 0) {
      for (DeadLetter& letter :
           source_.dead_letters().Between(RowNumber(part.message->rows().end()), UINT64_MAX)) {
        *leave.add_dead_letters() = std::move(letter);
      }
    }
    Send(shard, message, output);
  }
}

}  // namespace millrace
