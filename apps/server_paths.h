// Files and folders that a job's server, or whoever does its work, is to read and write.
#pragma once

#include "base/status.h"
#include "messages/job.pb.h"

namespace millrace {

// What is written late, some of it only at the end of the job, has to be known to fail at the
// start. Makes the folder of snapshots. Errors: what is in the way, with the path.
Status CheckServerPaths(const JobConfig& config);

}  // namespace millrace
