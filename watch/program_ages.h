// When a job's programs were last heard from, in words. Pure.
#pragma once

#include <string>

#include "metrics/job_state.h"

namespace millrace {

// "CsvProducer 0:00 ago, ServerApp 0:00 ago, workers' updates 0:01 to 0:12 ago". Of several of a
// kind: the youngest and the oldest age. Programs that have ended are shown as ended.
std::string AgesText(const JobState& state);

}  // namespace millrace
