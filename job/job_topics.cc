#include "job/job_topics.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "job/ensure_topics.h"
#include "job/job_registry.h"
#include "job/kafka_options.h"
#include "job/same_settings.h"

namespace millrace {
namespace {

// What is wrong with the topics may be that they are those of a job with other settings, which is
// what a person can mend.
Status CheckWorkers(const JobConfig& config, const std::atomic<bool>& stop) {
  MILLRACE_ASSIGN_OR_RETURN(const auto registry, JobRegistry::Create(config, stop));
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<JobFeatures> features, registry->ReadFeatures());
  return features ? CheckSameWorkers(*features, config) : absl::OkStatus();
}

}  // namespace

Status JobTopics::Prepare(const JobConfig& config) {
  return Ensure(config, PlanTopics(config.name(), config.workers(), std::nullopt));
}

Status JobTopics::PrepareLayout(const JobConfig& config, const TopicSizes& sizes) {
  std::vector<TopicPlan> plans =
      PlanTopics(config.name(), config.workers(), sizes, config.layout());
  std::erase_if(plans, [](const TopicPlan& plan) { return !IsOfLayout(plan.topic); });
  Status prepared = Ensure(config, std::move(plans));
  admin_.reset();
  return prepared;
}

Status JobTopics::Ensure(const JobConfig& config, std::vector<TopicPlan> plans) {
  std::vector<TopicSettings> topics;
  for (TopicPlan& plan : plans) {
    topics.push_back({plan.name, static_cast<int32_t>(plan.partitions), std::move(plan.config)});
  }
  if (!admin_) {
    MILLRACE_ASSIGN_OR_RETURN(admin_, KafkaAdmin::Create(ToKafkaOptions(config), "topics"));
  }
  Status prepared = EnsureJobTopics(config, topics, *admin_, stop_);
  if (!absl::IsFailedPrecondition(prepared)) return prepared;
  Status other_job = CheckWorkers(config, stop_);
  return absl::IsFailedPrecondition(other_job) ? other_job : prepared;
}

}  // namespace millrace
