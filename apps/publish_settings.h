// The settings with which a job begins, or goes on.
#pragma once

#include <string>

#include "base/status.h"
#include "job/job_registry.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"

namespace millrace {

// Makes them from `config`, whose defaults are set. `start`: JobTraining.start; empty: at the first
// row. InvalidArgument: the topology's groups make no sense.
StatusOr<JobTraining> SettingsOf(const JobConfig& config, const std::string& start);

// Makes them, checks them, publishes them, and warns of what will train badly. Errors are those of
// SettingsOf, CheckJob and JobRegistry::PublishTraining.
StatusOr<JobTraining> PublishSettings(const JobConfig& config, const JobFeatures& features,
                                      const std::string& start, JobRegistry& registry);

}  // namespace millrace
