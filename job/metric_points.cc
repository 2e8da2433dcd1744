#include "job/metric_points.h"

#include <algorithm>
#include <chrono>

#include "job/kafka_options.h"
#include "kafka/broker_retry.h"
#include "kafka/overdue_end.h"
#include "kafka/timeouts.h"
#include "topics/topics.h"

namespace millrace {

StatusOr<MetricPoints> MetricPoints::Open(const JobConfig& config, const std::string& client_id,
                                          int64_t points_back, const std::atomic<bool>& stop,
                                          Wakeup* wakeup) {
  return BrokerRetry(stop, config.broker_timeout_s()).Run([&] {
    return TryToOpen(config, client_id, points_back, wakeup);
  });
}

StatusOr<MetricPoints> MetricPoints::TryToOpen(const JobConfig& config,
                                               const std::string& client_id, int64_t points_back,
                                               Wakeup* wakeup) {
  ConsumerOptions options;
  options.client_id = client_id;
  options.queue_kbytes = 4096;
  MetricPoints points;
  MILLRACE_ASSIGN_OR_RETURN(
      points.consumer_,
      PartitionConsumer::Create(ToKafkaOptions(config), options,
                                TopicName(config.name(), Topic::kMetrics), wakeup));
  MILLRACE_ASSIGN_OR_RETURN(const OffsetRange range, points.consumer_->QueryRange(0, kBrokerCall));
  points.end_.Know(range.end);
  MILLRACE_RETURN_IF_ERROR(
      points.consumer_->Assign(0, std::max(range.begin, range.end - points_back)));
  return points;
}

StatusOr<size_t> MetricPoints::Poll(const Take& take) {
  constexpr size_t kPointsAtOnce = 1000;
  ConsumerHandler handler;
  handler.on_record = take;
  TellEnd(end_, handler);
  handler.on_out_of_range = [this](int32_t) {
    is_read_ = true;
    return absl::OkStatus();
  };
  MILLRACE_ASSIGN_OR_RETURN(const size_t events, consumer_->Poll(kPointsAtOnce, handler));
  // They are nobody's state: those that are lost are not waited for.
  is_read_ |= end_.is_reached() || end_.is_overdue(std::chrono::steady_clock::now());
  return events;
}

}  // namespace millrace
