#include "job/job_registry.h"
#include "job/layout_in_force.h"
#include "worker/one_layout.h"
#include "worker/worker_loop.h"

namespace millrace {

Status RunWorker(const JobConfig& config, const JobFeatures& features, const JobTraining& training,
                 JobRegistry& registry, JobTopics& topics, const std::optional<Incarnation>& self,
                 const std::atomic<bool>& stop) {
  while (true) {
    JobConfig of_layout = config;
    JobTraining in_force = training;
    MILLRACE_RETURN_IF_ERROR(EnterLayout(registry, topics, features, of_layout, in_force).status());
    MILLRACE_ASSIGN_OR_RETURN(const bool goes_over, RunWorkerOfLayout(of_layout, features, in_force,
                                                                      registry, self, stop));
    if (!goes_over) return absl::OkStatus();
  }
}

}  // namespace millrace
