#include "job/ensure_topics.h"

#include "kafka/broker_retry.h"

namespace millrace {

Status EnsureJobTopics(const JobConfig& config, const std::vector<TopicSettings>& topics,
                       KafkaAdmin& admin, const std::atomic<bool>& stop) {
  MILLRACE_RETURN_IF_ERROR(admin.WaitForBroker([&stop] { return stop.load(); }));
  const int replicas = config.replication_factor() > 0
                           ? static_cast<int>(config.replication_factor())
                           : -1;  // the cluster's default
  const BrokerRetry broker_retry(stop, config.broker_timeout_s());
  return broker_retry.Run([&] { return admin.EnsureTopics(topics, replicas); });
}

}  // namespace millrace
