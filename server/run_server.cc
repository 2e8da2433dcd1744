#include <vector>

#include "job/job_registry.h"
#include "job/layout_in_force.h"
#include "server/next_layout.h"
#include "server/one_layout.h"
#include "server/server_loop.h"

namespace millrace {

Status RunServer(const JobConfig& config, const JobFeatures& features, const JobTraining& training,
                 JobRegistry& registry, JobTopics& topics, const MetricPoint::Setup& setup,
                 const std::optional<Incarnation>& self, const std::atomic<bool>& stop) {
  while (true) {
    JobConfig of_layout = config;
    JobTraining in_force = training;
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<uint32_t> layouts,
                              EnterLayout(registry, topics, features, of_layout, in_force));
    RemoveStoresOfLayoutsBefore(of_layout, layouts);
    MILLRACE_ASSIGN_OR_RETURN(const bool goes_over, RunOneLayout(of_layout, features, in_force,
                                                                 registry, setup, self, stop));
    if (!goes_over) return absl::OkStatus();
  }
}

}  // namespace millrace
