// Reads a job's topic `plan`.
#pragma once

#include <atomic>
#include <map>
#include <string>

#include "base/status.h"
#include "master/job_view.h"
#include "messages/job.pb.h"

namespace millrace {

// FailedPrecondition, with the remedy: no master has run this job.
Status NoMasterError(const JobConfig& config);

// The newest committed value of each key, up to the end as it is now. Errors: NotFound: there is no
// such topic; DataLoss: more keys than a master writes; Cancelled when `stop` is set; Unavailable
// or DeadlineExceeded when no broker answers for config.broker_timeout_s (0: never).
StatusOr<std::map<std::string, std::string>> ReadPlan(const JobConfig& config,
                                                      const std::atomic<bool>& stop);

// The same as a master understands it, and how long ago it was written. Beside those errors:
// FailedPrecondition with the remedy: no master has run this job, or it is one of another job
// epoch.
StatusOr<JobProcesses> ReadJobProcesses(const JobConfig& config, const std::atomic<bool>& stop);

}  // namespace millrace
