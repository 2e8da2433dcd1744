// Training without Kafka: what a sequential one-pass run must end in, to the byte.
#pragma once

#include <set>
#include <utility>
#include <vector>

#include "tests/simulation/scenario.h"

namespace millrace::simulation {

// By shard (none where there is no entry): (worker, clock) whose update counts as an empty one.
using SkippedUpdates = std::vector<std::set<std::pair<WorkerId, Clock>>>;

// One process, one loop over the rounds, nothing but models/. REQUIRES a sequential one-pass
// scenario. Returns the weights and, behind them, the embedding rows of AllIds.
std::vector<float> TrainInOneProcess(const Scenario& scenario, const SkippedUpdates& skipped);

}  // namespace millrace::simulation
