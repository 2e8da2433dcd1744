// Makes checkpoints durable beside the hot path.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/status.h"
#include "kafka/wakeup.h"
#include "tasks/checkpoint.h"

namespace millrace {

// One thread that takes one checkpoint at a time through all its steps. Start, Finished and busy
// are for the owner's thread.
class Checkpointer {
 public:
  // References outlive the checkpointer; `wakeup` (may be null) is notified when one has finished.
  Checkpointer(CheckpointLog& log, OrderedByteMap& store, Wakeup* wakeup);
  // Lets the running checkpoint finish.
  ~Checkpointer();

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
  void Run();

  CheckpointLog& log_;
  OrderedByteMap& store_;
  Wakeup* wakeup_;
  bool busy_ = false;  // the owner's

  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;             // guarded by mutex_
  std::optional<Checkpoint> todo_;  // guarded by mutex_
  std::optional<Result> finished_;  // guarded by mutex_
  std::thread thread_;              // last: it uses all of the above
};

}  // namespace millrace
