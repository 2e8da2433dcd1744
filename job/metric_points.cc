#include "job/metric_points.h"

#include <algorithm>

#include "job/kafka_options.h"
#include "kafka/broker_retry.h"
#include "kafka/timeouts.h"
#include "topics/topics.h"

namespace millrace {

StatusOr<std::unique_ptr<PartitionConsumer>> ReadMetricPoints(const JobConfig& config,
                                                              int64_t points_back,
                                                              const std::atomic<bool>& stop,
                                                              Wakeup& wakeup) {
  ConsumerOptions options;
  options.client_id = "takeover";
  MILLRACE_ASSIGN_OR_RETURN(
      std::unique_ptr<PartitionConsumer> metrics,
      PartitionConsumer::Create(ToKafkaOptions(config), options,
                                TopicName(config.name(), Topic::kMetrics), &wakeup));
  MILLRACE_ASSIGN_OR_RETURN(const OffsetRange range,
                            BrokerRetry(stop, config.broker_timeout_s()).Run([&metrics] {
                              return metrics->QueryRange(0, kBrokerCall);
                            }));
  MILLRACE_RETURN_IF_ERROR(metrics->Assign(0, std::max(range.begin, range.end - points_back)));
  return metrics;
}

}  // namespace millrace
