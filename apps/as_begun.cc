#include "apps/as_begun.h"

#include "apps/publish_settings.h"
#include "job/same_settings.h"
#include "producer/job_features.h"
#include "tasks/task_options.h"

namespace millrace {
namespace {

Status CheckTraining(const JobConfig& config, const JobTraining& begun) {
  JobConfig given = config;
  SetDefaultsAsBegun(begun.training(), *given.mutable_training());
  SetDefaults(*given.mutable_training());
  // Where it starts from (--from-snapshot) ServerApp alone can read.
  MILLRACE_ASSIGN_OR_RETURN(const JobTraining training, SettingsOf(given, begun.start()));
  return CheckSameTraining(begun, training);
}

Status CheckFeatures(const JobConfig& config, const JobFeatures& begun) {
  MILLRACE_ASSIGN_OR_RETURN(const JobFeatures features, FeaturesAsBegun(config, begun));
  return CheckSameFeatures(begun, features);
}

}  // namespace

Status CheckAsBegun(const JobConfig& config, const ProgramsOfJob& programs, const BegunJob& begun) {
  if (begun.has_ended) return absl::OkStatus();
  if (begun.features) {
    MILLRACE_RETURN_IF_ERROR(CheckSameWorkers(*begun.features, config));
    if (programs.send_rows) MILLRACE_RETURN_IF_ERROR(CheckFeatures(config, *begun.features));
  }
  if (!begun.training) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(CheckSameSharding(config, begun.training->training().sharding(),
                                             config.training().sharding()));
  return programs.train ? CheckTraining(config, *begun.training) : absl::OkStatus();
}

}  // namespace millrace
