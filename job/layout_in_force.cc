#include "job/layout_in_force.h"

#include <cstddef>
#include <vector>

#include "topics/most_workers.h"
#include "topics/server_groups.h"

namespace millrace {

Status EnterLayout(JobRegistry& registry, const JobFeatures& features, JobConfig& config,
                   JobTraining& training, const std::atomic<bool>& stop) {
  MILLRACE_RETURN_IF_ERROR(FollowLayout(registry, config, training));
  return PrepareTopics(config,
                       TopicSizesOf(training.training(), features.workers(), training.shards(),
                                    GroupCount(training)),
                       stop);
}

StatusOr<bool> IsNextLayoutInForce(JobRegistry& registry, uint32_t layout) {
  const StatusOr<std::vector<uint32_t>> layouts = registry.ReadLayouts();
  if (IsAway(layouts.status())) return false;
  MILLRACE_RETURN_IF_ERROR(layouts.status());
  return layouts->size() > layout + size_t{1};
}

}  // namespace millrace
