// Keeps two sources from fencing each other for ever.
#pragma once

#include <atomic>

#include "base/status.h"
#include "messages/job.pb.h"

namespace millrace {

// A source fences the one before. Where both have supervisors, who was fenced is started again, and
// would fence the other in turn, for ever. So a source looks first whether another one runs.
//
// Looks at the progress in `metrics`. If the last is young, waits whether more comes for three
// times as long as it takes. FailedPrecondition, marked as fenced: another producer of the job is
// running. Cancelled when stopped; errors are those of the broker.
Status CheckThatNoSourceRuns(const JobConfig& config, const std::atomic<bool>& stop);

}  // namespace millrace
