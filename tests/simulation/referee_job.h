// A shard of a scenario, for its referee.
#pragma once

#include "tests/simulation/referee.h"
#include "tests/simulation/scenario.h"

namespace millrace::simulation {

Referee::Job JobOf(const Scenario& scenario, ShardId shard);

}  // namespace millrace::simulation
