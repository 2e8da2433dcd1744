#include "follower/found_job.h"

#include <google/protobuf/util/message_differencer.h>

#include <memory>
#include <optional>
#include <string>

#include "job/job_registry.h"
#include "job/kafka_options.h"
#include "kafka/consumer.h"
#include "topics/topics.h"

namespace millrace {
namespace {

using google::protobuf::util::MessageDifferencer;

// JobRegistry waits for a broker without a limit.
Status LookForTopic(const JobConfig& config) {
  const std::string topic = TopicName(config.name(), Topic::kJob);
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<PartitionConsumer> consumer,
                            PartitionConsumer::Create(ToKafkaOptions(config),
                                                      {.client_id = "predictor"}, topic, nullptr));
  Status found = consumer->QueryRange(0, kFollowerLook).status();
  if (!absl::IsNotFound(found)) return found;
  return absl::NotFoundError("there is no job " + config.name() + " at " + config.brokers() +
                             " yet (its topic " + topic + " is not there)");
}

Status HasNotBegun(const std::string& job, const std::string& why) {
  return absl::NotFoundError("the job " + job + " has not begun: " + why);
}

}  // namespace

StatusOr<OffsetRange> RangeOfJobTopic(const std::string& job, const std::string& topic,
                                      int32_t partition, PartitionConsumer& consumer) {
  StatusOr<OffsetRange> range = consumer.QueryRange(partition, kFollowerLook);
  if (!absl::IsNotFound(range.status())) return range;
  return HasNotBegun(job, "its topic " + topic + " is not there; start its ServerApp");
}

bool FoundJob::IsSame(const FoundJob& other) const {
  return began_ms == other.began_ms && MessageDifferencer::Equals(features, other.features) &&
         MessageDifferencer::Equals(training, other.training);
}

StatusOr<FoundJob> FindJob(const JobConfig& config, const CheckFoundJob& check,
                           const std::atomic<bool>& stop) {
  MILLRACE_RETURN_IF_ERROR(LookForTopic(config));
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<JobRegistry> registry,
                            JobRegistry::Create(config, stop));
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<JobFeatures> features, registry->ReadFeatures());
  if (!features) {
    return HasNotBegun(config.name(), "no CsvProducer or TopicSource has published its features");
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<JobTraining> training, registry->ReadTraining());
  if (!training) {
    return HasNotBegun(config.name(), "no ServerApp has published its training settings");
  }
  MILLRACE_RETURN_IF_ERROR(check(*features, *training));
  FoundJob job{*features, *training, registry->training_published_ms()};
  // (A job that has gone over to other shards is another one to those who read them.)
  JobConfig of_layout = config;
  MILLRACE_RETURN_IF_ERROR(FollowLayout(*registry, of_layout, job.training).status());
  MILLRACE_ASSIGN_OR_RETURN(const auto ended, registry->ReadEnded());
  job.ended = EveryShardEnded(ended, job.training.shards());
  return job;
}

}  // namespace millrace
