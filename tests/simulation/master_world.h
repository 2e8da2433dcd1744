// Masters of one job, the log between them, the machine that they command, and users.
#pragma once

#include <cstdint>

#include "tests/simulation/master_machine.h"
#include "tests/simulation/seed_outcome.h"

namespace millrace::simulation {

// Runs the production fold on one seed: masters that are killed between any two steps, older ones
// that go on, transactions that are aborted, users who give plans, stop the job and repeat records,
// and processes that end in every way. Then all faults end, and what is to run must run.
SeedOutcome RunMasterSeed(uint64_t seed, MasterError error = MasterError::kNone);

}  // namespace millrace::simulation
