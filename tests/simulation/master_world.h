// Masters of one job, the log between them, the machine that they command, and users.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tests/simulation/master_machine.h"

namespace millrace::simulation {

struct MasterOutcome {
  std::string violation;  // empty: every invariant held
  std::map<std::string, uint64_t> coverage;
};

// Runs the production fold on one seed: masters that are killed between any two steps, older ones
// that go on, transactions that are aborted, users who give plans, stop the job and repeat records,
// and processes that end in every way. Then all faults end, and what is to run must run.
MasterOutcome RunMasterSeed(uint64_t seed, MasterError error = MasterError::kNone);

}  // namespace millrace::simulation
