// How a shard of which no copy is left goes on from what the workers have of it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "messages/records.pb.h"
#include "processors/vector_clock.h"
#include "topics/gradient_codec.h"

namespace millrace {

// Takes what each worker says (Gradient.Restore), and tells what the shard goes on from once all
// have spoken and one of them has weights. Lost for good are the optimizer's state, the embedding
// rows, and what was counted once. A part of the shard's state; not thread-safe.
class LostState {
 public:
  explicit LostState(uint32_t workers) : workers_(workers) {}

  // REQUIRES a restore of one of the workers. Weights that are no numbers count as none.
  void Take(Gradient message);
  // Who has not said yet what it has, ascending.
  std::vector<WorkerId> Silent() const;

  struct Restored {
    Clock clock = 0;  // of the weights
    Slice slice{};
    MomentsMessage moments{};
    struct Member {
      VectorClock::Entry entry{};
      RowProgress rows{};
      RowProgress rows_before{};
    };
    std::map<WorkerId, Member> members{};
  };
  // Empty: not all have spoken, or none has weights. In a sequential job all that have not left
  // stand at the newest clock that anybody knows: a round that somebody was told the end of was
  // everybody's. (An update of it that is said again is old; what was sent after it is said again.)
  // In others each stands where it says, and of whom nobody knows it at the least of the others.
  // Nobody stands at a clock whose rows it has committed and deleted.
  std::optional<Restored> Restore(bool sequential) const;

  void Save(ShardState& state) const;
  // InvalidArgument when the state has what no worker can have said.
  Status Load(const ShardState& state, const GradientShape& shape);

 private:
  uint32_t workers_;
  std::map<WorkerId, Gradient> said_;
};

}  // namespace millrace
