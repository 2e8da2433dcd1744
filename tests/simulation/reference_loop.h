// Training without Kafka: what a sequential one-pass run must end in, to the byte.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "models/moments.h"
#include "tests/simulation/scenario.h"

namespace millrace::simulation {

// By shard (none where there is no entry): (worker, clock) whose update counts as an empty one, and
// whether its rows are counted.
using SkippedUpdates = std::vector<std::map<std::pair<WorkerId, Clock>, bool>>;

// Of a job whose workers change: by clock, who trained, and how many workers the job was said to
// have (0: as at the beginning).
struct PresentInRound {
  std::set<WorkerId> workers;
  uint32_t told = 0;
};
using Presence = std::map<Clock, PresentInRound>;

// The weights and, after them, the embedding rows of AllIds.
struct Trained {
  std::vector<float> end;
  std::map<Clock, std::vector<float>> after;  // so many rounds
  Moments moments;                            // at the end
  // Empty, or how an update of an online learner differs from the plain learner's.
  std::string misled{};
};

// One process, one loop over the rounds, nothing but models/. REQUIRES a sequential one-pass
// scenario, and `rounds` that come to pass. `presence`: of a job whose workers change. With top_k,
// no worker has died in the run that it is compared with.
Trained TrainInOneProcess(const Scenario& scenario, const SkippedUpdates& skipped,
                          const std::set<Clock>& rounds = {}, const Presence& presence = {});

}  // namespace millrace::simulation
