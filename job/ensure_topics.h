// Topics of a job.
#pragma once

#include <atomic>
#include <vector>

#include "base/status.h"
#include "kafka/admin.h"
#include "messages/job.pb.h"

namespace millrace {

// Waits for a broker, then creates these topics with the job's number of replicas, or checks those
// that exist. Errors: Cancelled when `stop` is set; KafkaAdmin::EnsureTopics's.
Status EnsureJobTopics(const JobConfig& config, const std::vector<TopicSettings>& topics,
                       KafkaAdmin& admin, const std::atomic<bool>& stop);

}  // namespace millrace
