// A job of trainers of one's own without Kafka: what a sequential run must end in, to the byte.
#pragma once

#include <set>

#include "tests/simulation/reference_loop.h"
#include "tests/simulation/scenario.h"

namespace millrace::simulation {

// One process, one loop over the rounds, number by number. REQUIRES a sequential scenario with
// named parameters.
Trained TrainPlainly(const Scenario& scenario, const SkippedUpdates& skipped,
                     const std::set<Clock>& rounds);

}  // namespace millrace::simulation
