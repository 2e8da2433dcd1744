#include "job/begun_job.h"

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "job/job_registry.h"
#include "job/topic_exists.h"
#include "topics/topics.h"

namespace millrace {
namespace {

bool CannotBeRead(const Status& status) {
  return absl::IsNotFound(status) || absl::IsPermissionDenied(status);
}

StatusOr<BegunJob> ReadAll(JobRegistry& registry) {
  BegunJob job;
  MILLRACE_ASSIGN_OR_RETURN(const std::set<ShardId> ended, registry.ReadEnded());
  MILLRACE_ASSIGN_OR_RETURN(job.features, registry.ReadFeatures());
  MILLRACE_ASSIGN_OR_RETURN(job.training, registry.ReadTraining());
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<uint32_t> layouts, registry.ReadLayouts());
  job.has_ended = !layouts.empty() && EveryShardEnded(ended, layouts.back());
  return job;
}

}  // namespace

StatusOr<BegunJob> ReadBegunJob(const JobConfig& config, const std::atomic<bool>& stop) {
  // Who reads a topic that is not there waits for it, and here nobody may have created it.
  const StatusOr<bool> is_there = TopicExists(config, TopicName(config.name(), Topic::kJob), stop);
  if (absl::IsPermissionDenied(is_there.status())) return BegunJob();
  MILLRACE_RETURN_IF_ERROR(is_there.status());
  if (!*is_there) return BegunJob();
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<JobRegistry> registry,
                            JobRegistry::Create(config, stop));
  StatusOr<BegunJob> job = ReadAll(*registry);
  return CannotBeRead(job.status()) ? BegunJob() : job;
}

}  // namespace millrace
