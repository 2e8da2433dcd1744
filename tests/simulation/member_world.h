// Processes that train by all-reduce, in one thread and by one seed: members die, join, lose a
// world in the middle of a round, and die all together.
#pragma once

#include <cstdint>

#include "tests/simulation/seed_outcome.h"

namespace millrace::simulation {

// Errors that the simulator is to notice.
enum class MemberError {
  kNone,
  kCommitsTooEarly,     // positions count before their checkpoint is durable
  kKeepsAnOldState,     // who is behind does not take the state of the furthest
  kIgnoresCheckpoints,  // member 0 does not read the last checkpoint
  kAddsInAnotherOrder,  // the last worker's values first
  kForgetsDeadLetters,  // who joins does not get those that are in no checkpoint
};

SeedOutcome RunMemberSeed(uint64_t seed, MemberError error = MemberError::kNone);

}  // namespace millrace::simulation
