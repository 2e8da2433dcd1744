// Whether a topic of a job is there. Who reads one that is not waits until somebody makes it.
#pragma once

#include <atomic>
#include <string>

#include "base/status.h"
#include "messages/job.pb.h"

namespace millrace {

// Waits for a broker, as long as the job's --broker-timeout. Errors: Cancelled when `stop` is set;
// PermissionDenied when this user may not know; DeadlineExceeded when no broker came.
StatusOr<bool> TopicExists(const JobConfig& config, const std::string& topic,
                           const std::atomic<bool>& stop);

}  // namespace millrace
