#include "job/begun_job.h"

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "job/job_registry.h"
#include "job/kafka_options.h"
#include "kafka/admin.h"
#include "kafka/broker_retry.h"
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
  MILLRACE_ASSIGN_OR_RETURN(const auto admin,
                            KafkaAdmin::Create(ToKafkaOptions(config), "begun-job"));
  const Status found =
      BrokerRetry(stop, config.broker_timeout_s())
          .Run([&] { return admin->PartitionCount(TopicName(config.name(), Topic::kJob)); })
          .status();
  if (CannotBeRead(found)) return BegunJob();
  MILLRACE_RETURN_IF_ERROR(found);
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<JobRegistry> registry,
                            JobRegistry::Create(config, stop));
  StatusOr<BegunJob> job = ReadAll(*registry);
  return CannotBeRead(job.status()) ? BegunJob() : job;
}

}  // namespace millrace
