#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "runtime/kafka/client_config.h"
#include "runtime/kafka/consumer.h"
#include "runtime/kafka/fetch_nudge.h"
#include "runtime/kafka/offset_range.h"
#include "runtime/kafka/poll_batch.h"
#include "runtime/kafka/rdkafka_handles.h"
#include "runtime/kafka/read_positions.h"
#include "runtime/kafka/status_of_error.h"

namespace millrace {
namespace {

using kafka_internal::Handle;
using kafka_internal::ReadPositions;
using kafka_internal::StatusOfError;

// On librdkafka's "simple consumer": it takes one queue for all partitions, starts and stops a
// partition alone, and asks for no consumer group (nor a group's permissions or coordinator).
class SimplePartitionConsumer final : public PartitionConsumer {
 public:
  SimplePartitionConsumer(std::string topic, Wakeup* wakeup)
      : topic_name_(std::move(topic)), wakeup_(wakeup) {}
  ~SimplePartitionConsumer() override;
  Status Open(const KafkaOptions& kafka, const ConsumerOptions& options);

  StatusOr<Range> QueryRange(int32_t partition, std::chrono::milliseconds timeout) override {
    return kafka_internal::QueryOffsetRange(client_.get(), topic_name_, partition, timeout);
  }
  Status Assign(int32_t partition, Offset offset) override;
  Status Unassign(int32_t partition) override;
  StatusOr<size_t> Poll(size_t max_records, const ConsumerHandler& handler) override;

 private:
  const std::string topic_name_;
  Wakeup* const wakeup_;
  Handle<rd_kafka_t> client_;
  Handle<rd_kafka_topic_t> topic_;
  Handle<rd_kafka_queue_t> queue_;
  ReadPositions positions_;
  std::optional<kafka_internal::FetchNudge> nudge_;
};

SimplePartitionConsumer::~SimplePartitionConsumer() {
  if (queue_ == nullptr) return;
  rd_kafka_queue_cb_event_enable(queue_.get(), nullptr, nullptr);
  for (const auto& [partition, offset] : positions_.all()) {
    rd_kafka_consume_stop(topic_.get(), partition);
  }
}

Status SimplePartitionConsumer::Open(const KafkaOptions& kafka, const ConsumerOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(
      auto conf, kafka_internal::MakeConfiguration(
                     kafka, options.client_id,
                     kafka_internal::ConsumerSettings(options.queue_kbytes,
                                                      options.read_committed)));
  MILLRACE_ASSIGN_OR_RETURN(client_,
                            kafka_internal::MakeClient(RD_KAFKA_CONSUMER, std::move(conf)));
  topic_.reset(rd_kafka_topic_new(client_.get(), topic_name_.c_str(), nullptr));
  if (topic_ == nullptr) {
    return StatusOfError(rd_kafka_last_error(), absl::StrCat("topic '", topic_name_, "'"));
  }
  queue_.reset(rd_kafka_queue_new(client_.get()));
  if (wakeup_ != nullptr) {
    rd_kafka_queue_cb_event_enable(
        queue_.get(), [](rd_kafka_t*, void* wakeup) { static_cast<Wakeup*>(wakeup)->Notify(); },
        wakeup_);
  }
  nudge_.emplace(client_.get(), topic_name_, options.queue_kbytes);
  return absl::OkStatus();
}

Status SimplePartitionConsumer::Assign(int32_t partition, Offset offset) {
  MILLRACE_CHECK(offset >= 0);
  MILLRACE_RETURN_IF_ERROR(Unassign(partition));
  if (rd_kafka_consume_start_queue(topic_.get(), partition, offset, queue_.get()) != 0) {
    return StatusOfError(rd_kafka_last_error(),
                         absl::StrCat("reading ", topic_name_, " [", partition, "]"));
  }
  positions_.Start(partition, offset);
  return absl::OkStatus();
}

Status SimplePartitionConsumer::Unassign(int32_t partition) {
  if (!positions_.Contains(partition)) return absl::OkStatus();
  positions_.Stop(partition);
  if (rd_kafka_consume_stop(topic_.get(), partition) != 0) {
    return StatusOfError(rd_kafka_last_error(), absl::StrCat("ceasing to read ", topic_name_,
                                                             " [", partition, "]"));
  }
  return absl::OkStatus();
}

StatusOr<size_t> SimplePartitionConsumer::Poll(size_t max_records,
                                               const ConsumerHandler& handler) {
  rd_kafka_poll(client_.get(), 0);  // errors of the client as a whole
  kafka_internal::BatchResult result;
  MILLRACE_RETURN_IF_ERROR(kafka_internal::PollBatches(queue_.get(), max_records, handler,
                                                       positions_, *nudge_, result));
  for (const int32_t partition : result.restart) {
    if (!positions_.Contains(partition)) continue;
    MILLRACE_RETURN_IF_ERROR(Assign(partition, positions_.all().at(partition)));
  }
  // The queue tells only when it has been empty.
  if (!result.drained && wakeup_ != nullptr) wakeup_->Notify();
  return result.events;
}

}  // namespace

StatusOr<std::unique_ptr<PartitionConsumer>> PartitionConsumer::Create(
    const KafkaOptions& kafka, const ConsumerOptions& options, std::string topic, Wakeup* wakeup) {
  auto consumer = std::make_unique<SimplePartitionConsumer>(std::move(topic), wakeup);
  MILLRACE_RETURN_IF_ERROR(consumer->Open(kafka, options));
  return std::unique_ptr<PartitionConsumer>(std::move(consumer));
}

}  // namespace millrace
