// The run loop of WorkerApp: one thread that hosts the logical workers that it is given. Others
// help where several have something to compute.
#pragma once

#include <atomic>
#include <optional>

#include "base/status.h"
#include "job/job_registry.h"
#include "job/job_topics.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"
#include "topics/planned_hosts.h"

namespace millrace {

// `registry` and `topics`: of the job, which nobody else uses meanwhile. `self`: what a master's
// plan calls this process; empty: a person has started it (HostedWorkers).
//
// Runs until the job has ended (OK), or `stop` (Cancelled; everything is saved). DataLoss on a gap
// in the rows.
Status RunWorker(const JobConfig& config, const JobFeatures& features, const JobTraining& training,
                 JobRegistry& registry, JobTopics& topics, const std::optional<Incarnation>& self,
                 const std::atomic<bool>& stop);

}  // namespace millrace
