#include "tests/simulation/server_log.h"

#include "base/big_endian.h"
#include "base/error_marks.h"

namespace millrace::simulation {
namespace {

Status Fenced() {
  return MarkFenced(absl::FailedPreconditionError("another epoch of this producer has begun"));
}
Status NoAnswer() { return absl::DeadlineExceededError("no answer"); }

}  // namespace

StatusOr<Offset> ServerLog::CommitTransaction(const Checkpoint& checkpoint, Offset previous_end) {
  if (hopeless_) {
    world_.observer->OnError("a checkpoint is tried again that can never succeed");
    return Fenced();
  }
  StatusOr<Offset> end = transaction_.Commit(checkpoint, previous_end);
  hopeless_ = millrace::IsFenced(end.status()) || IsPermanent(end.status());
  return end;
}

Status ServerLog::TrimGradients(Offset position) {
  if (world_.Fault("failed trim", 0.05)) return absl::OkStatus();
  if (position > world_.log.End(Topic::kGradients, partition_)) {
    return absl::OutOfRangeError("the log ends before that");
  }
  if (position > world_.log.Begin(Topic::kGradients, partition_))
    world_.Count("gradients truncated");
  world_.log.DeleteBefore(Topic::kGradients, partition_, position);
  return absl::OkStatus();
}

Status ServerLog::Begin() {
  committed_ = false;
  end_ = 0;
  lost_ = false;
  return absl::OkStatus();
}

Status ServerLog::Append(std::string_view key, std::string_view value) {
  if (world_.Fault("crash in the middle of a transaction", 0.01)) return Died();
  if (world_.log.HasOpenTransaction(transactional_id_, epoch_) &&
      world_.Fault("transaction that times out while it is written", 0.003)) {
    world_.log.TimeOutTransaction(transactional_id_);
  }
  if (world_.Fault("record of a transaction that is not delivered", 0.003)) {
    lost_ = true;
    return absl::OkStatus();
  }
  if (value.empty()) world_.Count("expired row removed");
  const StatusOr<Offset> offset = Known(world_.log.AppendInTransaction(
      transactional_id_, epoch_, Topic::kParameters, partition_, key, value));
  if (offset.ok()) end_ = *offset + 1;
  return offset.status();
}

Status ServerLog::AppendDeadLetter(std::string_view letter) {
  return Known(world_.log.AppendInTransaction(transactional_id_, epoch_, Topic::kDeadLetter, 0,
                                              EncodeBigEndian32(shard_), letter))
      .status();
}

StatusOr<Offset> ServerLog::AwaitDelivery() {
  if (world_.Fault("broker away from a transaction", 0.05)) {
    return absl::UnavailableError("the broker is away");
  }
  if (world_.Fault("transaction that is refused for good", 0.005))
    return MarkPermanent(absl::AbortedError("not allowed"));
  if (lost_) return absl::AbortedError("a record has timed out");
  // The client may be told so of a record first, and of its epoch when it aborts.
  if (IsFenced() && world_.random.Chance(0.5)) {
    world_.Count("record of a fenced producer");
    return absl::AbortedError("a record was refused");
  }
  return end_;
}

Status ServerLog::Commit() {
  if (IsFenced()) return Fenced();
  if (!committed_ && world_.Fault("aborted transaction", 0.05)) return absl::AbortedError("");
  const bool answered = !world_.Fault("commit without an answer", 0.1);
  if (!answered && world_.random.Chance(0.5)) return NoAnswer();  // nor was it made
  if (!committed_) {
    MILLRACE_RETURN_IF_ERROR(world_.log.CommitTransaction(transactional_id_, epoch_));
    committed_ = true;
    world_.Count("checkpoint");
    world_.observer->OnCheckpointCommitted(shard_);
  }
  if (!answered) {
    world_.Count("commit made, but without an answer");
    return NoAnswer();
  }
  return world_.Fault("crash before the commit is known", 0.02) ? Died() : absl::OkStatus();
}

Status ServerLog::Abort() {
  if (IsFenced()) return Fenced();
  if (world_.Fault("abort without an answer", 0.2)) return NoAnswer();
  return world_.log.AbortTransaction(transactional_id_, epoch_);
}

StatusOr<Offset> ServerLog::Known(StatusOr<Offset> offset) {
  return absl::IsFailedPrecondition(offset.status()) ? Fenced() : offset;
}

Status ServerLog::Died() {
  died_ = true;
  return absl::InternalError("the process has died");
}

}  // namespace millrace::simulation
