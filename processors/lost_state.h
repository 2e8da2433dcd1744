// Restores a shard of which no copy is left from the workers' weights.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "messages/records.pb.h"
#include "processors/row_history.h"
#include "processors/vector_clock.h"
#include "topics/gradient_codec.h"

namespace millrace {

// Collects each worker's report (Gradient.Restore), and determines what the shard continues from
// once all have reported and one of them has weights. The optimizer's state, the embedding rows and
// counts are lost. A part of the shard's state; not thread-safe.
class LostState {
 public:
  // `pipeline`: updates that a worker may have in flight.
  LostState(uint32_t workers, size_t pipeline) : workers_(workers), pipeline_(pipeline) {}

  // REQUIRES a restore of one of the workers. Non-finite weights count as none.
  void Take(Gradient message);
  // The workers that have not reported yet, ascending.
  std::vector<WorkerId> Silent() const;

  struct Restored {
    Clock clock = 0;  // of the weights
    Slice slice{};
    MomentsMessage moments{};
    struct Member {
      VectorClock::Entry entry{};
      RowHistory rows;
    };
    std::map<WorkerId, Member> members{};
  };
  // Empty: not all have reported, or none has weights. In a sequential job all workers that have
  // not left continue at the newest clock that a worker knows: if one worker has seen the end of a
  // round, the round was complete. (A repeated update of that round is old; later updates are sent
  // again.) In other jobs each worker continues at the clock that it reports, or if it is unknown
  // at the lowest of the others. No worker continues at a clock whose rows it has committed and
  // deleted.
  std::optional<Restored> Restore(bool sequential) const;

  void Save(ShardState& state) const;
  // InvalidArgument when the state contains a report that no worker can have sent.
  Status Load(const ShardState& state, const GradientShape& shape);

 private:
  uint32_t workers_;
  size_t pipeline_;
  std::map<WorkerId, Gradient> said_;
};

}  // namespace millrace
