// A WorkerApp of a job that trains by all-reduce, without servers (docs/all-reduce.md).
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "base/status.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"

namespace millrace {

// What is done once when every worker has left and the state is in `parameters`: evaluation, files,
// the publication of the end. It is called by one member at a time, on a thread of its own, and
// again, if that member dies meanwhile.
using EndJob = std::function<Status()>;

// What a member asks of its program.
struct MemberCalls {
  EndJob end_job;
  // Whether the job has ended, by its topic. On the thread of RunMember; Unavailable: not known.
  std::function<StatusOr<bool>()> has_ended;
};

// Trains until the job has ended, or until `stop`, and then returns Cancelled. `about`: job,
// generation of its topics and version, in words: who says something else may not train along.
// Errors: those of the broker and of MasterApp; those of `end_job`, if this member has called it;
// FailedPrecondition: MasterApp takes this process for dead, or it is of another job than others.
// The process ends, with exit code 1, when this thread makes no progress for --stall-timeout.
// REQUIRES: CheckAllReduceConfig; config.worker().master_address.
Status RunMember(const JobConfig& config, const JobFeatures& features, const JobTraining& training,
                 const MetricPoint::Setup& setup, const MemberCalls& calls,
                 const std::string& about, const std::atomic<bool>& stop);

}  // namespace millrace
