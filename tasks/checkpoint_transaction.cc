#include "tasks/checkpoint_transaction.h"

#include <utility>

#include "base/check.h"

namespace millrace {

StatusOr<Offset> CheckpointTransaction::Commit(const Checkpoint& checkpoint, Offset previous_end) {
  MILLRACE_CHECK(!is_open() || checkpoint.position == position_);
  switch (next_) {
    case Next::kBegin:
      position_ = checkpoint.position;
      MILLRACE_RETURN_IF_ERROR(port_.Begin());
      next_ = Next::kDeliver;
      if (Status sent = SendAll(checkpoint); !sent.ok()) return Abort(std::move(sent));
      return Deliver(checkpoint, previous_end);
    case Next::kDeliver:
      return Deliver(checkpoint, previous_end);
    case Next::kCommit:
      return Commit();
    case Next::kAbort:
      return Abort(std::exchange(reason_, absl::OkStatus()));
  }
  MILLRACE_CHECK(false);
}

Status CheckpointTransaction::SendAll(const Checkpoint& checkpoint) {
  Status sent = absl::OkStatus();
  checkpoint.VisitRecords(0, [&](std::string_view key, std::string_view value) {
    sent = port_.Append(key, value);
    return sent.ok();
  });
  MILLRACE_RETURN_IF_ERROR(sent);
  for (const std::string& letter : checkpoint.dead_letters) {
    MILLRACE_RETURN_IF_ERROR(port_.AppendDeadLetter(letter));
  }
  return absl::OkStatus();
}

StatusOr<Offset> CheckpointTransaction::Deliver(const Checkpoint& checkpoint, Offset previous_end) {
  const StatusOr<Offset> end = port_.AwaitDelivery();
  if (IsAway(end.status())) return end.status();
  if (!end.ok()) return Abort(end.status());
  if (Status stands = CheckFollows(*end, checkpoint.records(), previous_end); !stands.ok()) {
    return Abort(std::move(stands));
  }
  end_ = *end;
  next_ = Next::kCommit;
  return Commit();
}

StatusOr<Offset> CheckpointTransaction::Commit() {
  Status committed = port_.Commit();
  if (IsAway(committed)) return committed;
  if (!committed.ok()) return Abort(std::move(committed));
  next_ = Next::kBegin;
  return end_;
}

Status CheckpointTransaction::Abort(Status reason) {
  // Any other leaves a process that has to stop: its successor's fence ends the transaction.
  if (!absl::IsAborted(reason) && !absl::IsDataLoss(reason)) return reason;
  next_ = Next::kAbort;
  Status aborted = port_.Abort();
  if (IsAway(aborted)) {
    reason_ = std::move(reason);
    return aborted;
  }
  if (!aborted.ok()) return aborted;
  next_ = Next::kBegin;
  return reason;
}

}  // namespace millrace
