// Tells a job's displays which version a process of it has.
#pragma once

#include <atomic>
#include <string>

#include "base/status.h"
#include "messages/job.pb.h"

namespace millrace {

// Writes to `metrics` that a WorkerApp of this version has begun. Waits while no broker answers
// (config.broker_timeout_s). Errors: Cancelled when `stop` is set; FailedPrecondition with the
// reason: it may not write there, for example.
Status TellThatAWorkerBegins(const JobConfig& config, const std::string& version,
                             const std::atomic<bool>& stop);

}  // namespace millrace
