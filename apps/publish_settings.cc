#include "apps/publish_settings.h"

#include <spdlog/spdlog.h>

#include <vector>

#include "apps/config_checks.h"
#include "apps/topology_groups.h"
#include "tasks/task_options.h"

namespace millrace {

StatusOr<JobTraining> SettingsOf(const JobConfig& config, const std::string& start) {
  JobTraining training;
  if (!start.empty()) training.set_start(start);
  training.set_epoch(config.epoch());
  training.set_shards(config.shards());
  *training.mutable_training() = config.training();
  MILLRACE_ASSIGN_OR_RETURN(std::vector<ServerGroup> groups, GroupsOf(config.topology()));
  training.mutable_group()->Assign(groups.begin(), groups.end());
  training.set_dead_letter_reasons_only(config.server().dead_letter_reasons_only());
  return training;
}

StatusOr<JobTraining> PublishSettings(const JobConfig& config, const JobFeatures& features,
                                      const std::string& start, JobRegistry& registry) {
  MILLRACE_ASSIGN_OR_RETURN(JobTraining training, SettingsOf(config, start));
  MILLRACE_RETURN_IF_ERROR(CheckJob(features, training));
  MILLRACE_RETURN_IF_ERROR(registry.PublishTraining(training));
  for (const std::string& warning : {SmallBufferText(features, config.training()),
                                     ManyWeightsText(features, config.training())}) {
    if (!warning.empty()) spdlog::warn("{}", warning);
  }
  return training;
}

}  // namespace millrace
