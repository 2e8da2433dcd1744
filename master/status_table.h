// A job as a table, for a person at a terminal. Pure.
#pragma once

#include <string>

#include "master/job_view.h"

namespace millrace {

// The job's phase, and a line for each process: name, phase, what it hosts, incarnation,
// restarts, for how long, how it ended last; and a line for each data set, each node, and each
// worker that has leases, if there is one; last what is to be said of the model. ASCII; ends with
// an end of line.
std::string StatusTable(const std::string& job, const JobProcesses& now);

}  // namespace millrace
