// The state in one line, for logs and pipes. Pure.
#pragma once

#include <string>

#include "metrics/job_progress.h"
#include "metrics/job_state.h"

namespace millrace {

// ASCII, without an end of line. `waited_seconds`: for the job's first point.
std::string PlainLine(const JobProgress& job, const JobState& state, double waited_seconds);

}  // namespace millrace
