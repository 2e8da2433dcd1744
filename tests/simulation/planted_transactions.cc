// Errors in what a server makes of the errors of its transactions.
#include <memory>
#include <utility>

#include "base/error_marks.h"
#include "tests/simulation/planted_shapes.h"

namespace millrace::simulation {
namespace {

// Tries again, as if it had been an accident.
template <bool (*kIsTheError)(const Status&)>
class TriesAgain final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  StatusOr<CheckpointCycle::End> Finish(const Checkpoint& checkpoint,
                                        const Status& result) override {
    if (!kIsTheError(result)) return ServerHost::Finish(checkpoint, result);
    return ServerHost::Finish(checkpoint, absl::AbortedError(result.message()));
  }
};

// Stops, though the next checkpoint would succeed.
class TakesAnAbortForAFence final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  StatusOr<CheckpointCycle::End> Finish(const Checkpoint& checkpoint,
                                        const Status& result) override {
    if (!absl::IsAborted(result) || IsPermanent(result)) {
      return ServerHost::Finish(checkpoint, result);
    }
    return ServerHost::Finish(checkpoint,
                              MarkFenced(absl::FailedPreconditionError(result.message())));
  }
};

// Begins anew as the newest instance, since transactions of a fenced one do not succeed.
class TakesItsShardBack final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  StatusOr<CheckpointCycle::End> Finish(const Checkpoint& checkpoint,
                                        const Status& result) override {
    if (!IsFenced(result) || TimedOut()) return ServerHost::Finish(checkpoint, result);
    Fence();
    return ServerHost::Finish(checkpoint, absl::AbortedError(result.message()));
  }
};

// The next checkpoint has what the log may have already.
class TakesSilenceForAnAbort final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  StatusOr<bool> StepRun(const Checkpoint& checkpoint) override {
    StatusOr<bool> last = ServerHost::StepRun(checkpoint);
    if (!absl::IsDeadlineExceeded(last.status())) return last;
    ForgetTransaction();
    return absl::AbortedError(last.status().message());
  }
};

// Asked again, the log says that the transaction is over: so it may seem to have been committed.
class TakesATimeoutForACommit final : public ServerHost {
 public:
  using ServerHost::ServerHost;

 protected:
  std::unique_ptr<CheckpointLog> MakeLog() override {
    return std::make_unique<WrongLog>(*this, ServerHost::MakeLog());
  }

 private:
  class WrongLog final : public CheckpointLog {
   public:
    WrongLog(TakesATimeoutForACommit& host, std::unique_ptr<CheckpointLog> right)
        : host_(host), right_(std::move(right)) {}
    StatusOr<Offset> CommitTransaction(const Checkpoint& checkpoint, Offset previous_end) override {
      StatusOr<Offset> end = right_->CommitTransaction(checkpoint, previous_end);
      const bool again = std::exchange(unanswered_, absl::IsDeadlineExceeded(end.status()));
      if (!again || !IsFenced(end.status()) || !host_.TimedOut()) return end;
      right_ = host_.ServerHost::MakeLog();  // for the next transaction
      // After its records stands the marker of the abort.
      return host_.world_.log.End(Topic::kParameters, static_cast<int32_t>(host_.shard())) - 1;
    }
    Status TrimGradients(Offset position) override { return right_->TrimGradients(position); }

   private:
    TakesATimeoutForACommit& host_;
    std::unique_ptr<CheckpointLog> right_;
    bool unanswered_ = false;
  };
};

}  // namespace

std::vector<PlantedError> PlantedInTransactions() {
  std::vector<PlantedError> errors;
  errors.push_back(InServer<TakesSilenceForAnAbort>(
      "a commit without an answer that is taken for an abort", 100, Unchanged));
  errors.push_back(InServer<TakesATimeoutForACommit>(
      "a commit that times out and is taken for made", 300, Unchanged));
  errors.push_back(InServer<TriesAgain<IsPermanent>>(
      "a checkpoint that is refused for good and tried again", 200, Unchanged));
  errors.push_back(InServer<TriesAgain<IsFenced>>("a checkpoint that is fenced and tried again",
                                                  100, Unchanged));
  errors.push_back(
      InServer<TakesItsShardBack>("a fenced server that takes its shard back", 100, Unchanged));
  errors.push_back(InServer<TakesAnAbortForAFence>(
      "an aborted checkpoint that is taken for a fence", 100, Unchanged));
  return errors;
}

}  // namespace millrace::simulation
