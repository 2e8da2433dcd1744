#include "job/topic_exists.h"

#include <memory>

#include "job/kafka_options.h"
#include "kafka/admin.h"
#include "kafka/broker_retry.h"

namespace millrace {

StatusOr<bool> TopicExists(const JobConfig& config, const std::string& topic,
                           const std::atomic<bool>& stop) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<KafkaAdmin> admin,
                            KafkaAdmin::Create(ToKafkaOptions(config), "topic-exists"));
  MILLRACE_RETURN_IF_ERROR(admin->WaitForBroker([&stop] { return stop.load(); }));
  const Status found = BrokerRetry(stop, config.broker_timeout_s()).Run([&] {
    return admin->PartitionCount(topic).status();
  });
  if (absl::IsNotFound(found)) return false;
  MILLRACE_RETURN_IF_ERROR(found);
  return true;
}

}  // namespace millrace
