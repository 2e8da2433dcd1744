// The sum of what all logical workers contribute, to the same bytes whoever hosts them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "collective/world.h"

namespace millrace {

struct Contribution {
  uint32_t worker = 0;
  std::span<const float> values;
};

// Each member of a world hosts some of the logical workers 0 .. n - 1, or none. Numbers are added
// as a shard adds them (docs/protocol.md): 0, then the contribution of worker 0, of worker 1 and so
// on, in single precision. So the sum does not depend on the number of members, nor on who hosts
// whom.
//
// Each member adds a slice, which the others send it, and sends it to the others. Used by one
// thread at a time.
class OrderedAllReduce {
 public:
  // owners[w] is the position of the member that hosts worker w; each contribution has `length`
  // numbers. REQUIRES: all members give the same; the world outlives this.
  OrderedAllReduce(World& world, std::vector<uint32_t> owners, size_t length);

  // REQUIRES: `own` are the contributions of this member's workers, each once; `sum` has `length`
  // numbers, and none of them in common with these. All members call it equally often. Unavailable:
  // a member has died or was too slow, and the world is of no use any more. The contributions
  // are as they were; `sum` is not. Others may have got the sum: one call more than this member.
  Status Run(std::span<const Contribution> own, std::span<float> sum);

 private:
  struct Slice {
    size_t begin = 0;
    size_t size = 0;
  };

  Slice SliceOf(uint32_t member) const;

  World& world_;
  const std::vector<uint32_t> owners_;
  const size_t length_;
  uint64_t shape_ = 0;           // a hash of owners and length
  std::vector<float> received_;  // this member's slice of the others' workers
};

}  // namespace millrace
