// The run loop of WorkerApp, as long as the job has the same number of shards: one thread that
// hosts the logical workers that it is given. Others help where several have something to compute.
#pragma once

#include <atomic>
#include <optional>

#include "base/status.h"
#include "job/job_registry.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"
#include "topics/planned_hosts.h"

namespace millrace {

// As RunWorker, until the job goes over to the next layout of shards, when it returns true; false:
// the job has ended. `config` and `training` are of the present layout (FollowLayout).
StatusOr<bool> RunWorkerOfLayout(const JobConfig& config, const JobFeatures& features,
                                 const JobTraining& training, JobRegistry& registry,
                                 const std::optional<Incarnation>& self,
                                 const std::atomic<bool>& stop);

}  // namespace millrace
