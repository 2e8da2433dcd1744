#include "durability/checkpoints/checkpointer.h"

#include <utility>

#include "base/check.h"

namespace millrace {

Checkpointer::Checkpointer(CheckpointLog& log, OrderedByteMap& store, Wakeup* wakeup)
    : log_(log), store_(store), worker_([wakeup] {
        if (wakeup != nullptr) wakeup->Notify();
      }) {}

void Checkpointer::Start(Checkpoint checkpoint) {
  MILLRACE_CHECK(!busy_);
  MILLRACE_CHECK(worker_.idle());
  busy_ = true;
  todo_ = std::move(checkpoint);
  worker_.Post("checkpoint", [this] { Run(); });
}

std::optional<Checkpointer::Result> Checkpointer::Finished() {
  if (!busy_ || !worker_.idle()) return std::nullopt;
  return TakeResult();
}

std::optional<Checkpointer::Result> Checkpointer::Wait() {
  if (!busy_) return std::nullopt;
  worker_.WaitUntilIdle();
  return TakeResult();
}

Checkpointer::Result Checkpointer::TakeResult() {
  MILLRACE_CHECK(result_.has_value());
  busy_ = false;
  return *std::exchange(result_, std::nullopt);
}

void Checkpointer::Run() {
  CheckpointRun run(*std::exchange(todo_, std::nullopt), log_, store_);
  Status status = absl::OkStatus();
  while (status.ok() && !run.done()) status = run.Step();
  result_ = Result{run.TakeCheckpoint(), std::move(status)};
}

}  // namespace millrace
