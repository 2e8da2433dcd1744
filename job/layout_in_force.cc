#include "job/layout_in_force.h"

#include <cstddef>
#include <vector>

#include "topics/most_workers.h"
#include "topics/server_groups.h"

namespace millrace {

StatusOr<std::vector<uint32_t>> EnterLayout(JobRegistry& registry, JobTopics& topics,
                                            const JobFeatures& features, JobConfig& config,
                                            JobTraining& training) {
  MILLRACE_ASSIGN_OR_RETURN(std::vector<uint32_t> layouts,
                            FollowLayout(registry, config, training));
  MILLRACE_RETURN_IF_ERROR(
      topics.PrepareLayout(config, TopicSizesOf(training.training(), features.workers(),
                                                training.shards(), GroupCount(training))));
  return layouts;
}

StatusOr<bool> IsNextLayoutInForce(JobRegistry& registry, uint32_t layout) {
  const StatusOr<std::vector<uint32_t>> layouts = registry.ReadLayouts();
  if (IsAway(layouts.status())) return false;
  MILLRACE_RETURN_IF_ERROR(layouts.status());
  return layouts->size() > layout + size_t{1};
}

}  // namespace millrace
