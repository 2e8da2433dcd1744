// What a job was begun with, for a program that does not wait for that.
#pragma once

#include <atomic>
#include <optional>

#include "base/status.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"

namespace millrace {

struct BegunJob {
  std::optional<JobFeatures> features;
  std::optional<JobTraining> training;
  bool has_ended = false;  // every worker has left every shard
};

// Empty when nobody has begun the job, or its topic may not be read. Creates no topic. Errors:
// FailedPrecondition when a program of another version began it; Cancelled when `stop` is set;
// Unavailable or DeadlineExceeded when no broker answers.
StatusOr<BegunJob> ReadBegunJob(const JobConfig& config, const std::atomic<bool>& stop);

}  // namespace millrace
