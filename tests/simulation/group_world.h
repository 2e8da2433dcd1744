// Groups of servers that exchange deltas, their trainers, and the logs between them.
#pragma once

#include <cstdint>

#include "tests/simulation/seed_outcome.h"

namespace millrace::simulation {

// Errors made on purpose, at the seams: does the simulator notice?
enum class GroupError {
  kNone,
  kLosesADelta,          // and nobody says it again
  kTakesADeltaTwice,     // if it is repeated
  kForgetsTheBase,       // it is not in checkpoints
  kForgetsTheLast,       // nor are the neighbor's last values
  kAnswersWithout,       // the neighbor's values do not have the delta that they answer
  kEndsBeforeTheLast,    // the primary ends when its own workers have left
  kCountsAPutAsAChange,  // the first values of a group are sent to its neighbor
};

// Runs the production tasks of shards and trainers on one seed: groups in a tree, whose trainers
// add whole numbers to parameters, so that every sum is exact. Shards are killed between any two
// records, and go on from their last checkpoint; some stay away for long, some leave an instance
// behind that goes on folding and sending. Records are lost (and said again), repeated and split.
// Then all faults end, and so must the job: the primary has each update of each group once, each
// group has its own, and a fold of each whole log ends in the same bytes.
SeedOutcome RunGroupSeed(uint64_t seed, GroupError error = GroupError::kNone);

}  // namespace millrace::simulation
