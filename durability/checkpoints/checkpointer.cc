#include "durability/checkpoints/checkpointer.h"

#include <utility>

#include "base/check.h"

namespace millrace {

Checkpointer::Checkpointer(CheckpointLog& log, OrderedByteMap& store, Wakeup* wakeup)
    : log_(log), store_(store), wakeup_(wakeup), thread_([this] { Run(); }) {}

Checkpointer::~Checkpointer() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Checkpointer::Start(Checkpoint checkpoint) {
  MILLRACE_CHECK(!busy_);
  busy_ = true;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    todo_ = std::move(checkpoint);
  }
  changed_.notify_all();
}

std::optional<Checkpointer::Result> Checkpointer::Finished() {
  if (!busy_) return std::nullopt;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (finished_) busy_ = false;
  return std::exchange(finished_, std::nullopt);
}

std::optional<Checkpointer::Result> Checkpointer::Wait() {
  if (!busy_) return std::nullopt;
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return finished_.has_value(); });
  busy_ = false;
  return std::exchange(finished_, std::nullopt);
}

void Checkpointer::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || todo_.has_value(); });
    if (!todo_) return;
    CheckpointRun run(*std::exchange(todo_, std::nullopt), log_, store_);
    lock.unlock();
    Status status = absl::OkStatus();
    while (status.ok() && !run.done()) status = run.Step();
    lock.lock();
    finished_ = Result{run.TakeCheckpoint(), std::move(status)};
    changed_.notify_all();
    if (wakeup_ != nullptr) wakeup_->Notify();
  }
}

}  // namespace millrace
