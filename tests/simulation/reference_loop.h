// Training without Kafka: what a sequential one-pass run must end in, to the byte.
#pragma once

#include <set>
#include <utility>
#include <vector>

#include "tests/simulation/scenario.h"

namespace millrace::simulation {

// One process, one loop over the rounds, nothing but models/. `skipped`: (worker, clock) whose
// update counts as an empty one. REQUIRES a sequential one-pass scenario.
std::vector<float> TrainInOneProcess(const Scenario& scenario,
                                     const std::set<std::pair<WorkerId, Clock>>& skipped);

}  // namespace millrace::simulation
