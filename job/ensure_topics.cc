#include "job/ensure_topics.h"

#include <memory>

#include "job/kafka_options.h"
#include "kafka/broker_retry.h"

namespace millrace {

Status EnsureJobTopics(const JobConfig& config, const std::vector<TopicSettings>& topics,
                       const std::string& client_id, const std::atomic<bool>& stop) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<KafkaAdmin> admin,
                            KafkaAdmin::Create(ToKafkaOptions(config), client_id));
  MILLRACE_RETURN_IF_ERROR(admin->WaitForBroker([&stop] { return stop.load(); }));
  const int replicas = config.replication_factor() > 0
                           ? static_cast<int>(config.replication_factor())
                           : -1;  // the cluster's default
  const BrokerRetry broker_retry(stop, config.broker_timeout_s());
  return broker_retry.Run([&] { return admin->EnsureTopics(topics, replicas); });
}

}  // namespace millrace
