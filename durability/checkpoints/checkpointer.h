// Writes checkpoints in the background of the hot path.
#pragma once

#include <optional>

#include "base/background_worker.h"
#include "base/status.h"
#include "kafka/wakeup.h"
#include "tasks/checkpoint.h"

namespace millrace {

// Runs one checkpoint at a time through all its steps, on a thread of its own. Its functions are
// for the owner's thread.
class Checkpointer {
 public:
  // References outlive the checkpointer; `wakeup` (may be null) is notified when one has finished.
  Checkpointer(CheckpointLog& log, OrderedByteMap& store, Wakeup* wakeup);

  bool busy() const { return busy_; }
  // REQUIRES !busy().
  void Start(Checkpoint checkpoint);

  struct Result {
    Checkpoint checkpoint;
    Status status;
  };
  // The result of the checkpoint that has finished since the last call, if one has.
  std::optional<Result> Finished();
  // Waits for the running checkpoint, if there is one.
  std::optional<Result> Wait();

 private:
  void Run();  // on the worker's thread
  Result TakeResult();

  CheckpointLog& log_;
  OrderedByteMap& store_;
  bool busy_ = false;
  // The worker's while it is busy, else the owner's.
  std::optional<Checkpoint> todo_;
  std::optional<Result> result_;
  BackgroundWorker worker_;  // last: it uses all of the above
};

}  // namespace millrace
