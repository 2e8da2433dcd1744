// Whether what a program is given is what its job was begun with.
#pragma once

#include "base/status.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"

namespace millrace {

// FailedPrecondition: a field that differs, and the remedy. A default that is written down is no
// difference.
Status CheckSameFeatures(const JobFeatures& published, const JobFeatures& given);
Status CheckSameTraining(const JobTraining& published, const JobTraining& given);
// The same of the number of logical workers alone, of a program that publishes no features.
Status CheckSameWorkers(const JobFeatures& published, const JobConfig& given);

// The same of --sharding alone, with a shorter text.
Status CheckSameSharding(const JobConfig& config, Training::Sharding begun,
                         Training::Sharding given);

}  // namespace millrace
