// Where a snapshot cuts through the workers' updates: what a shard knows of it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "base/types.h"
#include "messages/records.pb.h"
#include "processors/vector_clock.h"

namespace millrace {

// One cut through all shards (Chandy and Lamport 1985): shard 0 says for each worker at which
// clock, two updates on; its answers and then the worker's updates carry that to all shards, so
// that each knows it in time, whichever attempt of an update it takes. A shard stands at the cut
// when all workers have come to it or left. One snapshot at a time: a newer one replaces what is
// known. Pure: a part of the shard's state.
class SnapshotCut {
 public:
  explicit SnapshotCut(uint32_t workers);

  // Shard 0 chooses the cut of a new snapshot. False when it knows it already, when not all workers
  // are behind the last one, or when all have left: of an end nothing is to be cut off.
  bool Begin(uint64_t snapshot, const VectorClock& clocks);
  // Nobody waits for it any more; who has not heard of it does not begin it.
  void Cancel(uint64_t snapshot);
  // A worker says where its cut is.
  void Note(WorkerId worker, const SnapshotMark& mark);

  // The worker, which is at this clock, has come to the cut: its next update lies behind.
  bool IsBehind(WorkerId worker, Clock clock) const;
  // Ends what is open when every worker has come to the cut: the snapshot that the shard stands at.
  std::optional<uint64_t> Reach(const VectorClock& clocks);

  // Since Reach or the Cancel of what was open, and until Leave: updates may be held.
  bool reached() const { return reached_; }
  void Leave() { reached_ = false; }
  // The newest snapshot that is known.
  uint64_t newest() const { return snapshot_; }
  // The snapshot that is known and not reached.
  std::optional<uint64_t> open() const {
    return open_ ? std::optional<uint64_t>(snapshot_) : std::nullopt;
  }

  // What shard 0's answer says.
  void Tell(WorkerId worker, Weights& message) const;

  // REQUIRES: the state's members are there.
  void Save(ShardState& state) const;
  void Load(const ShardState& state);

 private:
  bool AllBehindTheLast(const VectorClock& clocks) const;

  uint64_t snapshot_ = 0;  // the newest known
  bool open_ = false;
  bool reached_ = false;
  std::map<WorkerId, std::optional<Clock>> cuts_;  // of snapshot_, as far as they are known
};

}  // namespace millrace
