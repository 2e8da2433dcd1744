// Saves the shards that are at the cut of a snapshot, in the background of the loop.
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
// snapshot is written; meanwhile nothing is folded into it, and other shards continue. For the
// loop's thread.
class CutSaver {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // References outlive it; `wakeup` is notified when a part has been written.
  CutSaver(SnapshotTaker& snapshots, Wakeup* wakeup)
      : snapshots_(snapshots), writer_([wakeup] { wakeup->Notify(); }) {}

  // REQUIRES: the shard's task is at a cut. Until Advance returns the shard, it must not
  // process a record or begin a checkpoint.
  void Enter(HostedShard& hosted, ServerOptions options, Time now);
  bool Holds(ShardId shard) const { return held_.contains(shard); }
  bool empty() const { return held_.empty(); }

  // Takes the next step of each shard, without waiting. Returns those that may leave their cut: the
  // part was written, or failed (which is logged). Errors are those of a checkpoint.
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
