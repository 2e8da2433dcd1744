// What a job that trains by all-reduce cannot be.
#pragma once

#include "base/status.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"

namespace millrace {

inline bool TrainsByAllReduce(const Training& training) {
  return training.distribution_strategy() == Training::ALL_REDUCE;
}

// Of one that does not, OK. InvalidArgument with the setting that is in the way, and the remedy.
Status CheckAllReduceConfig(const JobConfig& config);
// The same of what only the published features decide; FailedPrecondition.
Status CheckAllReduceFeatures(const JobFeatures& features, const Training& training);

}  // namespace millrace
