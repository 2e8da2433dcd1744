#include "producer/progress_publisher.h"

#include <utility>

#include "topics/frame.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;

// More than this on their way means that Kafka is away.
constexpr size_t kMaxOutstanding = 4;

}  // namespace

StatusOr<std::unique_ptr<ProgressPublisher>> ProgressPublisher::Create(const KafkaOptions& kafka,
                                                                       std::string topic) {
  ProducerOptions options;
  options.client_id = "csv-producer-metrics";
  options.queue_kbytes = 1024;
  options.one_request_at_a_time = true;  // nobody replaces this producer
  MILLRACE_ASSIGN_OR_RETURN(auto producer, KafkaProducer::Create(kafka, options, nullptr));
  return std::unique_ptr<ProgressPublisher>(
      new ProgressPublisher(std::move(producer), std::move(topic)));
}

void ProgressPublisher::Publish(Time now, const MetricPoint::ProducerProgress& progress) {
  if (now < next_) return;
  next_ = now + kProgressEvery;
  producer_->Poll(milliseconds(0));
  if (producer_->outstanding() < kMaxOutstanding) Send(progress);
}

void ProgressPublisher::PublishLast(const MetricPoint::ProducerProgress& progress,
                                    milliseconds timeout) {
  Send(progress);
  producer_->Flush(timeout).IgnoreError();
}

void ProgressPublisher::Send(const MetricPoint::ProducerProgress& progress) {
  producer_->TakeFailures();
  MetricPoint point;
  point.set_timestamp_ms(
      std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count());
  *point.mutable_producer() = progress;
  for (const std::string& frame : MakeFrames(point.SerializeAsString(), 0)) {
    producer_->Send(topic_, 0, kProducerSeries, frame).IgnoreError();
  }
}

}  // namespace millrace
