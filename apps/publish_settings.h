// The settings with which a job begins, or goes on.
#pragma once

#include <string>

#include "base/status.h"
#include "job/job_registry.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"

namespace millrace {

// Makes them from `config`, whose defaults are set, checks them, publishes them, and warns of what
// will train badly. `start`: JobTraining.start; empty: at the first row. Errors are those of
// CheckJob and JobRegistry::PublishTraining.
StatusOr<JobTraining> PublishSettings(const JobConfig& config, const JobFeatures& features,
                                      const std::string& start, JobRegistry& registry);

}  // namespace millrace
