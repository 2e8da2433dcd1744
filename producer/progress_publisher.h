// Publishes progress as points in the job's metrics topic.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/status.h"
#include "kafka/options.h"
#include "kafka/producer.h"
#include "messages/records.pb.h"

namespace millrace {

// The key of these points.
inline constexpr char kProducerSeries[] = "producer";
// They are sent about so often.
inline constexpr std::chrono::milliseconds kProgressEvery(500);

// A client of its own, so that points are not queued behind rows. It never delays the stream: while
// Kafka is unreachable, points are dropped. Used by one thread.
class ProgressPublisher {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static StatusOr<std::unique_ptr<ProgressPublisher>> Create(const KafkaOptions& kafka,
                                                             std::string topic);
  Status Prepare() { return producer_->Prepare({topic_}); }

  // To be called often; it sends a point each kProgressEvery.
  void Publish(Time now, const MetricPoint::ProducerProgress& progress);
  // Waits at most `timeout` until it is delivered.
  void PublishLast(const MetricPoint::ProducerProgress& progress,
                   std::chrono::milliseconds timeout);

 private:
  ProgressPublisher(std::unique_ptr<KafkaProducer> producer, std::string topic)
      : producer_(std::move(producer)), topic_(std::move(topic)) {}

  void Send(const MetricPoint::ProducerProgress& progress);

  std::unique_ptr<KafkaProducer> producer_;
  const std::string topic_;
  Time next_;
};

}  // namespace millrace
