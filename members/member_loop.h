// A WorkerApp of a job that trains by all-reduce, without servers (docs/all-reduce.md).
#pragma once

#include <atomic>
#include <functional>

#include "base/status.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"

namespace millrace {

// What is done once when every worker has left and the state is in `parameters`: evaluation, files,
// the publication of the end. It is called by one member at a time, on a thread of its own, and
// again, if that member dies meanwhile.
using EndJob = std::function<Status()>;

// Trains until the job has ended, or until `stop`, and then returns Cancelled. Errors: those of the
// broker and of MasterApp; those of `end_job`; FailedPrecondition: MasterApp takes this process for
// dead. REQUIRES: CheckAllReduce; config.worker().master_address.
Status RunMember(const JobConfig& config, const JobFeatures& features, const JobTraining& training,
                 const MetricPoint::Setup& setup, const EndJob& end_job,
                 const std::atomic<bool>& stop);

}  // namespace millrace
