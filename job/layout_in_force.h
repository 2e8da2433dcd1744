// The layout of a job's shards (JobSealed) that is in force.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "job/job_registry.h"
#include "job/job_topics.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"

namespace millrace {

// Has a program work with the layout that is in force: FollowLayout for `config` and `training`,
// and the layout's topics (JobTopics). `features` and `training`: as the job has
// published them. Returns what JobRegistry::ReadLayouts does.
StatusOr<std::vector<uint32_t>> EnterLayout(JobRegistry& registry, JobTopics& topics,
                                            const JobFeatures& features, JobConfig& config,
                                            JobTraining& training);

// Whether a later layout than this one is in force; false while no broker answers. Else errors are
// those of JobRegistry.
StatusOr<bool> IsNextLayoutInForce(JobRegistry& registry, uint32_t layout);

}  // namespace millrace
