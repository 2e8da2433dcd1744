// Makes sure of the topics of a job, before they are used.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "base/status.h"
#include "kafka/admin.h"
#include "messages/job.pb.h"
#include "topics/topics.h"

namespace millrace {

// Each call waits for a broker, then creates the topics, or checks those that exist. Errors:
// Cancelled when `stop` is set; FailedPrecondition, with what to do, when a topic is not as the job
// needs it; those of KafkaAdmin::EnsureTopics. Used by one thread.
class JobTopics {
 public:
  // `stop` outlives it.
  explicit JobTopics(const std::atomic<bool>& stop) : stop_(stop) {}

  // The topics that do not depend on the training settings.
  Status Prepare(const JobConfig& config);
  // The topics of the layout config.layout() of the job's shards (IsOfLayout). A program that
  // starts calls this soon after Prepare, so both use one connection, which ends here.
  Status PrepareLayout(const JobConfig& config, const TopicSizes& sizes);

 private:
  Status Ensure(const JobConfig& config, std::vector<TopicPlan> plans);

  const std::atomic<bool>& stop_;
  std::unique_ptr<KafkaAdmin> admin_;  // null: not connected
};

}  // namespace millrace
