// A job as JSON, for programs. Pure.
#pragma once

#include <string>

#include "master/job_view.h"

namespace millrace {

// What StatusTable (status_table.h) says (docs/master.md), with an end of line.
std::string StatusJson(const std::string& job, const JobProcesses& now);

}  // namespace millrace
