// What tells a job's run from others, as JSON. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "metrics/job_progress.h"

namespace millrace {

// Fields in docs/figures.md, all of them always there; null is what is not known.
nlohmann::ordered_json RunJson(const JobProgress& job);

}  // namespace millrace
