#include <memory>
#include <vector>

#include "job/job_registry.h"
#include "server/next_layout.h"
#include "server/one_layout.h"
#include "server/server_loop.h"
#include "topics/most_workers.h"
#include "topics/server_groups.h"

namespace millrace {

Status RunServer(const JobConfig& config, const JobFeatures& features, const JobTraining& training,
                 uint64_t generation, const MetricPoint::Setup& setup,
                 const std::optional<Incarnation>& self, const std::atomic<bool>& stop) {
  while (true) {
    JobConfig of_layout = config;
    JobTraining in_force = training;
    MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<JobRegistry> registry,
                              JobRegistry::Create(config, stop));
    MILLRACE_RETURN_IF_ERROR(FollowLayout(*registry, of_layout, in_force));
    MILLRACE_RETURN_IF_ERROR(PrepareTopics(of_layout,
                                           TopicSizesOf(training.training(), features.workers(),
                                                        in_force.shards(), GroupCount(training)),
                                           stop));
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<uint32_t> layouts, registry->ReadLayouts());
    RemoveStoresOfLayoutsBefore(of_layout, layouts);
    MILLRACE_ASSIGN_OR_RETURN(const bool goes_over, RunOneLayout(of_layout, features, in_force,
                                                                 generation, setup, self, stop));
    if (!goes_over) return absl::OkStatus();
  }
}

}  // namespace millrace
