// Tells a job's displays which version a process of it has.
#pragma once

#include <string>

#include "base/status.h"
#include "messages/job.pb.h"

namespace millrace {

// Writes to `metrics` that a WorkerApp of this version has begun. Tries once, for some seconds: a
// topic whose broker is away keeps no worker from training. Errors: those of the broker;
// FailedPrecondition with the reason: it may not write there, for example.
Status TellThatAWorkerBegins(const JobConfig& config, const std::string& version);

}  // namespace millrace
