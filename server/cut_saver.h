// Saves the shards that stand at the cut of a snapshot, beside the loop.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <vector>

#include "base/background_worker.h"
#include "base/status.h"
#include "base/types.h"
#include "durability/snapshots/snapshot_taker.h"
#include "kafka/wakeup.h"
#include "server/hosted_shard.h"

namespace millrace {

// A shard at a cut is checkpointed, so that its store has all of it, and then its part of the
// snapshot is written; meanwhile nothing is folded into it, and other shards go on. For the loop's
// thread.
class CutSaver {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // References outlive it; `wakeup` is notified when a part has been written.
  CutSaver(SnapshotTaker& snapshots, Wakeup* wakeup)
      : snapshots_(snapshots), writer_([wakeup] { wakeup->Notify(); }) {}

  // REQUIRES: the shard's task stands at a cut. Until Advance returns the shard, nothing may be
  // processed by it, nor a checkpoint be begun.
  void Enter(HostedShard& hosted, ServerOptions options, Time now);
  bool Holds(ShardId shard) const { return held_.contains(shard); }
  bool empty() const { return held_.empty(); }

  // Takes the next step of each shard, without waiting. Returns those that may leave their cut: the
  // part is written, or (with a warning) it is not. Errors are those of a checkpoint.
  StatusOr<std::vector<ShardId>> Advance(Time now);

 private:
  struct Held {
    HostedShard* hosted = nullptr;
    ServerOptions options;
    uint64_t snapshot = 0;
    Time since;
    bool writing = false;
    Status written = absl::OkStatus();  // the writer's until `done`
    std::atomic<bool> done = false;
  };
  // True when the shard may leave.
  StatusOr<bool> Step(Held& held, Time now);

  SnapshotTaker& snapshots_;
  std::map<ShardId, Held> held_;
  BackgroundWorker writer_;  // last: its jobs use what they were given of the above
};

}  // namespace millrace
