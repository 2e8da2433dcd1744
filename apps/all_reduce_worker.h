// WorkerApp where a job trains by all-reduce.
#pragma once

#include <atomic>

#include "base/status.h"
#include "job/job_registry.h"
#include "job/job_topics.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"

namespace millrace {

// Publishes the training settings of `config`, trains until the job has ended, and, if no other
// process does so, brings it to its end as its server would: evaluation, files, snapshot.
// REQUIRES: config.worker().master_address. Unimplemented: this program was built without Gloo.
// Other errors: those of the settings, and of RunMember.
Status RunAllReduceWorker(JobConfig config, const JobFeatures& features, JobRegistry& registry,
                          JobTopics& topics, const std::atomic<bool>& stop);

}  // namespace millrace
