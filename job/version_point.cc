#include "job/version_point.h"

#include <memory>
#include <vector>

#include "base/clock.h"
#include "job/kafka_options.h"
#include "kafka/producer.h"
#include "kafka/timeouts.h"
#include "messages/records.pb.h"
#include "topics/frame.h"
#include "topics/topics.h"

namespace millrace {

Status TellThatAWorkerBegins(const JobConfig& config, const std::string& version) {
  ProducerOptions options;
  options.client_id = "worker-version";
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<KafkaProducer> producer,
                            KafkaProducer::Create(ToKafkaOptions(config), options, nullptr));
  const std::string topic = TopicName(config.name(), Topic::kMetrics);
  MILLRACE_RETURN_IF_ERROR(producer->Prepare({topic}));
  MetricPoint point;
  point.set_timestamp_ms(NowMs());
  point.mutable_worker()->mutable_setup()->set_version(version);
  const std::string value = MakeFrames(point.SerializeAsString(), 0).front();
  MILLRACE_RETURN_IF_ERROR(producer->Send(topic, 0, "worker", value));
  MILLRACE_RETURN_IF_ERROR(producer->Flush(kBrokerCall));
  const std::vector<FailedDelivery> failures = producer->TakeFailures();
  if (failures.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(topic + ": " + failures.front().reason);
}

}  // namespace millrace
