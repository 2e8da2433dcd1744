// The transaction that makes a checkpoint a part of `parameters`, whatever the broker answers.
#pragma once

#include <string_view>

#include "base/status.h"
#include "base/types.h"
#include "tasks/checkpoint.h"

namespace millrace {

// A transactional producer. Two implementations: Kafka and memory. Errors of all calls: Unavailable
// or DeadlineExceeded: no answer, the same call may be made again; Aborted: the transaction has
// failed and is to be aborted; FailedPrecondition, marked: fenced by a newer instance.
class TransactionPort {
 public:
  virtual ~TransactionPort() = default;
  virtual Status Begin() = 0;
  // Hand over a record of `parameters`, or a dead letter. They wait rather than have no answer.
  virtual Status Append(std::string_view key, std::string_view value) = 0;
  virtual Status AppendDeadLetter(std::string_view letter) = 0;
  // Returns the offset after the last record of `parameters` once the log has all of them.
  virtual StatusOr<Offset> AwaitDelivery() = 0;
  virtual Status Commit() = 0;
  virtual Status Abort() = 0;
};

// One transaction after the other. What has begun is gone through with: a commit or an abort
// without an answer is made again, since its outcome must not be guessed. (A commit that took
// effect and is taken for an abort would deliver its dead letters twice.) Not thread-safe.
class CheckpointTransaction {
 public:
  // The port outlives it.
  explicit CheckpointTransaction(TransactionPort& port) : port_(port) {}

  // Returns as CheckpointLog::CommitTransaction does; and Unavailable or DeadlineExceeded when
  // there was no answer: then it goes on with the next call. REQUIRES: that is of the same
  // checkpoint, which is known by its position.
  StatusOr<Offset> Commit(const Checkpoint& checkpoint, Offset previous_end);
  // A transaction has begun, and its end is not known.
  bool is_open() const { return next_ != Next::kBegin; }

 private:
  enum class Next { kBegin, kDeliver, kCommit, kAbort };

  Status SendAll(const Checkpoint& checkpoint);
  StatusOr<Offset> Deliver(const Checkpoint& checkpoint, Offset previous_end);
  StatusOr<Offset> Commit();
  // Of what was not written, or must not be, there is nothing then.
  Status Abort(Status reason);

  TransactionPort& port_;
  Next next_ = Next::kBegin;
  Offset position_ = 0;               // of the checkpoint, while it is open
  Offset end_ = 0;                    // when it is to be committed
  Status reason_ = absl::OkStatus();  // when it is to be aborted
};

}  // namespace millrace
