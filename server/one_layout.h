// The run loop of ServerApp, as long as the job has the same number of shards: one thread that
// folds gradients and answers, with the help of others where there are several shards; further
// threads work in the background.
#pragma once

#include <atomic>
#include <optional>

#include "base/status.h"
#include "job/job_registry.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"
#include "topics/planned_hosts.h"

namespace millrace {

// As RunServer, until the job goes over to the next layout of shards, when it returns true; false:
// anything else has ended it well. `config` and `training` are of the present layout
// (FollowLayout).
StatusOr<bool> RunOneLayout(const JobConfig& config, const JobFeatures& features,
                            const JobTraining& training, JobRegistry& registry,
                            const MetricPoint::Setup& setup, const std::optional<Incarnation>& self,
                            const std::atomic<bool>& stop);

}  // namespace millrace
