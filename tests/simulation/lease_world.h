// Masters that lease rows of input-data, and workers that learn from them.
#pragma once

#include <cstdint>

#include "tests/simulation/seed_outcome.h"

namespace millrace::simulation {

// Errors made on purpose, at the seams: does the simulator notice?
enum class LeaseError {
  kNone,
  kCountsRepeats,       // a cut that is repeated is taken for one of the next rows
  kCountsAhead,         // a row too many is said to be counted
  kCountsForAnother,    // rows of a worker are said to be another's
  kSkipsARecord,        // the next cut begins a record too late
  kMissesTheEnd,        // of a partition
  kTrimsWhatIsLeased,   // of input-data
  kLearnsAcrossLeases,  // the end of a lease ends no batch
  kAcceptsAnyClock,     // shard 0 counts a zombie's update, too
  kStaysWithOldLeases,  // a worker that has missed leases goes on with those that it knows
  kFollowsOldOrders,    // shard 0 changes the workers by the order of a master that was replaced
  kAcceptsAnyLife,      // shard 0 takes what a worker has sent that has left, and joined again
  kLeavesEndsUnread,    // no worker reads what is behind the last row of a partition
};

// Runs the production fold, cutter, leased rows and batches on one seed: masters that are killed
// between any two steps and overtaken, transactions that are aborted, records that are repeated,
// servers that say again what they counted long ago, producers that repeat rows in other records,
// workers that are killed, and zombies of them; workers that come, leave and come again by orders,
// which are said again, also by masters that were replaced; what nobody needs is deleted. Each row
// must be learnt from once, in batches that follow from the leases and the log. Then all faults
// end, and every worker must leave.
SeedOutcome RunLeaseSeed(uint64_t seed, LeaseError error = LeaseError::kNone);

}  // namespace millrace::simulation
