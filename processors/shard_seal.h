// A shard's knowledge of the cut at which its job goes over to another number of shards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "base/status.h"
#include "base/types.h"
#include "messages/records.pb.h"
#include "processors/vector_clock.h"

namespace millrace {

// One cut through all shards, which travels as that of a snapshot does (SnapshotCut): shard 0
// chooses a clock for each worker, its answers and then the worker's updates carry it. A shard that
// has come to the cut is sealed: nothing changes it any more. There is one cut in the life of a
// shard, and it cannot be cancelled, since some shards may have come to it already. Pure: a part of
// the shard's state.
class ShardSeal {
 public:
  // `pipeline`: updates that a worker may have in flight.
  explicit ShardSeal(size_t pipeline) : pipeline_(pipeline) {}

  // Shard 0 chooses the cut. False when there is one already, or all have left.
  bool Begin(uint32_t next_shards, const VectorClock& clocks);
  // A worker's message names its cut. Others are left out: marks of snapshots, and those of another
  // number of shards.
  void Note(WorkerId worker, const SnapshotMark& mark);

  // Whether the worker, which is at this clock, has reached the cut: its next message is after it.
  bool HasReached(WorkerId worker, Clock clock) const;
  // Seals the shard if every worker has reached the cut or left before it, but not all have left.
  // True when that is news. (Where all have left the job has ended.)
  bool Reach(const VectorClock& clocks);

  // The cut is known.
  bool has_begun() const { return next_shards_ > 0; }
  bool is_sealed() const { return sealed_; }
  // How many shards the job has after the cut; 0: no cut is known.
  uint32_t next_shards() const { return next_shards_; }

  // The mark in shard 0's answer to the worker; empty: none.
  std::optional<SnapshotMark> Mark(WorkerId worker) const;

  void Save(ShardState& state) const;
  // InvalidArgument when Save cannot have made it. `workers`: that the job may have.
  Status Load(const ShardState& state, uint32_t workers);

 private:
  size_t pipeline_;
  uint32_t next_shards_ = 0;
  bool sealed_ = false;
  std::map<WorkerId, Clock> cuts_;  // as far as they are known
};

}  // namespace millrace
