// When a job's programs were last heard of, in words. Pure.
#pragma once

#include <string>

#include "metrics/job_state.h"

namespace millrace {

// "CsvProducer 0:00 ago, ServerApp 0:00 ago, workers' updates 0:01 to 0:12 ago". Of several of a
// kind: the youngest and the oldest age. Who has ended is said to have.
std::string AgesText(const JobState& state);

}  // namespace millrace
