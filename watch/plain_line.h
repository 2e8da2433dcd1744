// The state in one line, for logs and pipes. Pure.
#pragma once

#include <string>

#include "metrics/job_progress.h"

namespace millrace {

// ASCII, without an end of line. `silent_seconds`: since the last point came.
std::string PlainLine(const JobProgress& job, double silent_seconds);

}  // namespace millrace
