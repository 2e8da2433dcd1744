// A shard's knowledge of a snapshot's cut through the workers' updates.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

#include "base/types.h"
#include "messages/records.pb.h"
#include "processors/vector_clock.h"

namespace millrace {

// One cut through all shards (Chandy and Lamport 1985): shard 0 chooses a clock for each worker,
// one more than its updates in flight ahead. Its answers and then the worker's updates carry the
// clock to all shards, so that each shard knows it in time, whichever attempt of an update it
// accepts. A shard is at the cut when all workers have reached it or left. One snapshot at a time:
// a newer one replaces the older. Where the updates up to the cut do not come, all shards are told
// to cut where they are. Pure: a part of the shard's state.
class SnapshotCut {
 public:
  // `pipeline`: updates that a worker may have in flight.
  SnapshotCut(uint32_t workers, size_t pipeline);

  // Shard 0 chooses the cut of a new snapshot. False when it knows this snapshot already, when not
  // all workers have passed the last cut, or when all have left.
  bool Begin(uint64_t snapshot, const VectorClock& clocks);
  // The shard is at the cut of this snapshot, wherever the workers are. False when it is no news:
  // the cut has been reached, or the snapshot or a later one was cancelled.
  bool CutHere(uint64_t snapshot);
  // Cancels the snapshot: it is no longer waited for, and a shard that does not know it yet will
  // not begin it.
  void Cancel(uint64_t snapshot);
  // A worker's message names its cut.
  void Note(WorkerId worker, const SnapshotMark& mark);

  // The worker joins the running job: it has no cut yet.
  void Join(WorkerId worker) { cuts_.at(worker).reset(); }
  // Whether all workers have passed the last cut, if one is known, so far that every shard has come
  // to it.
  bool AllArePastTheLast(const VectorClock& clocks) const;

  // Whether the worker, which is at this clock, has reached the cut: its next update is after it.
  bool HasReached(WorkerId worker, Clock clock) const;
  // Returns the open snapshot, and closes it, when every worker has reached the cut.
  std::optional<uint64_t> Reach(const VectorClock& clocks);

  // True from Reach, CutHere, or the Cancel of an open snapshot, until Leave: updates may be held.
  bool reached() const { return reached_; }
  void Leave() { reached_ = false; }
  // The newest snapshot that has begun.
  uint64_t begun() const { return snapshot_; }
  // The newest snapshot that has begun, or was cancelled.
  uint64_t newest() const { return std::max(snapshot_, cancelled_); }
  // The known snapshot whose cut is not reached.
  std::optional<uint64_t> open() const {
    return open_ ? std::optional<uint64_t>(snapshot_) : std::nullopt;
  }

  // The mark in shard 0's answer to the worker; empty: none.
  std::optional<SnapshotMark> Mark(WorkerId worker) const;

  // REQUIRES: the state has its members already.
  void Save(ShardState& state) const;
  void Load(const ShardState& state);

 private:
  size_t pipeline_;
  uint64_t snapshot_ = 0;   // the newest that has begun: its cuts are told to workers
  uint64_t cancelled_ = 0;  // the newest that was cancelled: none up to it begins any more
  bool open_ = false;
  bool reached_ = false;
  std::map<WorkerId, std::optional<Clock>> cuts_;  // of snapshot_, as far as they are known
};

}  // namespace millrace
