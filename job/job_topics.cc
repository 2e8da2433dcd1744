#include "job/job_topics.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "job/ensure_topics.h"
#include "job/job_registry.h"
#include "job/same_settings.h"
#include "kafka/admin.h"

namespace millrace {
namespace {

// What is wrong with the topics may be that they are those of a job with other settings, which is
// what a person can mend.
Status CheckWorkers(const JobConfig& config, const std::atomic<bool>& stop) {
  MILLRACE_ASSIGN_OR_RETURN(const auto registry, JobRegistry::Create(config, stop));
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<JobFeatures> features, registry->ReadFeatures());
  return features ? CheckSameWorkers(*features, config) : absl::OkStatus();
}

Status Prepare(const JobConfig& config, std::vector<TopicPlan> plans,
               const std::atomic<bool>& stop) {
  std::vector<TopicSettings> topics;
  for (TopicPlan& plan : plans) {
    topics.push_back({plan.name, static_cast<int32_t>(plan.partitions), std::move(plan.config)});
  }
  Status prepared = EnsureJobTopics(config, topics, "topics", stop);
  if (!absl::IsFailedPrecondition(prepared)) return prepared;
  Status other_job = CheckWorkers(config, stop);
  return absl::IsFailedPrecondition(other_job) ? other_job : prepared;
}

}  // namespace

Status PrepareTopics(const JobConfig& config, const std::atomic<bool>& stop) {
  return Prepare(config, PlanTopics(config.name(), config.workers(), std::nullopt), stop);
}

Status PrepareLayoutTopics(const JobConfig& config, const TopicSizes& sizes,
                           const std::atomic<bool>& stop) {
  std::vector<TopicPlan> plans =
      PlanTopics(config.name(), config.workers(), sizes, config.layout());
  std::erase_if(plans, [](const TopicPlan& plan) { return !IsOfLayout(plan.topic); });
  return Prepare(config, std::move(plans), stop);
}

}  // namespace millrace
