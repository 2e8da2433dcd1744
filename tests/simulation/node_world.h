// Nodes that join masters and wait for each other, and the masters' log between them.
#pragma once

#include <cstdint>

#include "tests/simulation/seed_outcome.h"

namespace millrace::simulation {

// Errors made on purpose, at the seams: does the simulator notice?
enum class NodeError {
  kNone,
  kMissesTicks,              // the dead live on
  kGivesARankTwice,          // it is told how many live, not which rank is free
  kReleasesWithoutANode,     // who gives a sign of life is taken to have arrived
  kCountsTheDead,            // the sign of a dead node is taken for that of its replacement
  kLosesBarriers,            // with the master that is killed
  kForgetsReleases,          // their number, with the master that is killed
  kLosesValues,              // of who waits, with the master that is killed
  kCountsRepeats,            // a sign that is repeated is taken for a new one
  kAnswersWhatIsNotWritten,  // a transaction is aborted, and its nodes are told of it
};

// Runs the production fold and the production calls (processors/node_calls.h) on one seed: masters
// that are killed between any two steps and overtaken, transactions that are aborted, commands that
// strangers repeat, nodes that join, die, stand still until they are dead and go on, leave, call
// again, and give up waiting. What is folded, and what nodes are told, must be what a referee says
// who reads the same log (tests/processors/node_referee.h). Then all faults end, and all nodes must
// pass a barrier.
SeedOutcome RunNodeSeed(uint64_t seed, NodeError error = NodeError::kNone);

}  // namespace millrace::simulation
