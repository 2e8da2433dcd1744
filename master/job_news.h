// What a job's master tells its log of the job: sentences about what has changed. Pure.
#pragma once

#include <string>
#include <vector>

#include "master/job_view.h"

namespace millrace {

// A sentence for each process that has begun to run, ended or is being stopped since `before`, for
// each shard that has moved, each data set that has begun, is done or has lost a task, for each
// node that has joined, died or left, for leases when they begin and when there is no further row,
// and for the job's phase. Without an end of line.
std::vector<std::string> News(const JobProcesses& before, const JobProcesses& now);

// The same of what a person should look after: servers that nobody trains with any more.
std::vector<std::string> NewWarnings(const JobProcesses& before, const JobProcesses& now);

}  // namespace millrace
