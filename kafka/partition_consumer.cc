#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "kafka/client_config.h"
#include "kafka/consumer.h"
#include "kafka/fetch_nudge.h"
#include "kafka/fetch_queue.h"
#include "kafka/offset_range.h"
#include "kafka/queue_turns.h"
#include "kafka/rdkafka_handles.h"
#include "kafka/read_positions.h"
#include "kafka/status_of_error.h"
#include "kafka/topic_presence.h"

namespace millrace {
namespace {

using kafka_internal::FetchQueue;
using kafka_internal::Handle;
using kafka_internal::PollResult;
using kafka_internal::QueueTurns;
using kafka_internal::ReadPositions;
using kafka_internal::StatusOfError;

// On librdkafka's "simple consumer": it takes one queue for all partitions, or one for each, starts
// and stops a partition alone, and asks for no consumer group (nor a group's permissions or
// coordinator).
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
  void Hold(int32_t partition, bool held) override;
  StatusOr<size_t> Poll(size_t max_records, const ConsumerHandler& handler) override;

 private:
  // Asks the handler from where each partition is read again.
  Status ReadAgain(const ConsumerHandler& handler);
  FetchQueue& QueueOf(int32_t partition);
  Status HandOut(size_t max_records, const ConsumerHandler& handler, PollResult& result);

  const std::string topic_name_;
  Wakeup* const wakeup_;
  std::atomic<uint64_t> closed_ = 0;  // connections
  Handle<rd_kafka_t> client_;
  Handle<rd_kafka_topic_t> topic_;
  std::optional<FetchQueue> queue_;  // of all partitions; none: each has its own
  std::map<int32_t, std::unique_ptr<FetchQueue>> queues_;
  QueueTurns turns_;  // of these
  ReadPositions positions_;
  std::optional<kafka_internal::FetchNudge> nudge_;
  std::optional<kafka_internal::TopicPresence> presence_;
  bool polling_ = false;
};

SimplePartitionConsumer::~SimplePartitionConsumer() {
  for (const auto& [partition, offset] : positions_.all()) {
    rd_kafka_consume_stop(topic_.get(), partition);
  }
}

Status SimplePartitionConsumer::Open(const KafkaOptions& kafka, const ConsumerOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(auto conf,
                            kafka_internal::MakeConfiguration(
                                kafka, options.client_id,
                                kafka_internal::ConsumerSettings(options, options.queue_kbytes)));
  rd_kafka_conf_set_opaque(conf.get(), &closed_);
  // Called by a thread of the client before it may read from another broker.
  rd_kafka_conf_set_closesocket_cb(conf.get(), [](int socket, void* closed) {
    ++*static_cast<std::atomic<uint64_t>*>(closed);
    return close(socket);
  });
  MILLRACE_ASSIGN_OR_RETURN(client_,
                            kafka_internal::MakeClient(RD_KAFKA_CONSUMER, std::move(conf)));
  topic_.reset(rd_kafka_topic_new(client_.get(), topic_name_.c_str(), nullptr));
  if (topic_ == nullptr) {
    return StatusOfError(rd_kafka_last_error(), absl::StrCat("topic '", topic_name_, "'"));
  }
  if (!options.holds_partitions) {
    queue_.emplace(Handle<rd_kafka_queue_t>(rd_kafka_queue_new(client_.get())), wakeup_, &closed_);
  }
  nudge_.emplace(client_.get(), topic_name_, options.queue_kbytes);
  presence_.emplace(client_.get(), topic_name_);
  return absl::OkStatus();
}

Status SimplePartitionConsumer::Assign(int32_t partition, Offset offset) {
  MILLRACE_CHECK(offset >= 0);
  MILLRACE_RETURN_IF_ERROR(Unassign(partition));
  FetchQueue& queue = QueueOf(partition);
  queue.Hold(false);
  if (rd_kafka_consume_start_queue(topic_.get(), partition, offset, queue.get()) != 0) {
    return StatusOfError(rd_kafka_last_error(),
                         absl::StrCat("reading ", topic_name_, " [", partition, "]"));
  }
  positions_.Start(partition, offset);
  return absl::OkStatus();
}

Status SimplePartitionConsumer::Unassign(int32_t partition) {
  MILLRACE_CHECK(!polling_);
  if (!positions_.Contains(partition)) return absl::OkStatus();
  positions_.Stop(partition);
  QueueOf(partition).Drop(partition);
  if (rd_kafka_consume_stop(topic_.get(), partition) != 0) {
    return StatusOfError(rd_kafka_last_error(),
                         absl::StrCat("stopping to read ", topic_name_, " [", partition, "]"));
  }
  return absl::OkStatus();
}

FetchQueue& SimplePartitionConsumer::QueueOf(int32_t partition) {
  if (queue_) return *queue_;
  std::unique_ptr<FetchQueue>& own = queues_[partition];
  if (own == nullptr) {
    own = std::make_unique<FetchQueue>(Handle<rd_kafka_queue_t>(rd_kafka_queue_new(client_.get())),
                                       wakeup_);
  }
  return *own;
}

void SimplePartitionConsumer::Hold(int32_t partition, bool held) {
  MILLRACE_CHECK(!queue_);
  if (!positions_.Contains(partition)) return;
  QueueOf(partition).Hold(held);
  if (!held && wakeup_ != nullptr) wakeup_->Notify();  // its queue may have filled long ago
}

Status SimplePartitionConsumer::HandOut(size_t max_records, const ConsumerHandler& handler,
                                        PollResult& result) {
  if (queue_) return queue_->HandOut(max_records, handler, positions_, *nudge_, result);
  MILLRACE_CHECK(!handler.on_connection_lost);
  return turns_.Take(queues_, max_records, result.events,
                     [&](const std::unique_ptr<FetchQueue>& queue, size_t most) {
                       return queue->HandOut(most, handler, positions_, *nudge_, result);
                     });
}

Status SimplePartitionConsumer::ReadAgain(const ConsumerHandler& handler) {
  const std::map<int32_t, Offset> positions = positions_.all();
  for (const auto& [partition, position] : positions) {
    const std::optional<Offset> offset = handler.on_connection_lost(partition);
    if (!offset) continue;
    MILLRACE_CHECK(*offset <= position);
    MILLRACE_RETURN_IF_ERROR(Assign(partition, *offset));
  }
  return absl::OkStatus();
}

StatusOr<size_t> SimplePartitionConsumer::Poll(size_t max_records, const ConsumerHandler& handler) {
  rd_kafka_poll(client_.get(), 0);  // errors of the client as a whole
  PollResult result;
  polling_ = true;
  const Status status = HandOut(max_records, handler, result);
  polling_ = false;
  MILLRACE_RETURN_IF_ERROR(status);
  if (result.is_topic_unknown) presence_->Suspect();
  MILLRACE_RETURN_IF_ERROR(presence_->Check());
  for (const int32_t partition : result.restart) {
    MILLRACE_RETURN_IF_ERROR(Assign(partition, positions_.all().at(partition)));
  }
  if (result.is_connection_lost) MILLRACE_RETURN_IF_ERROR(ReadAgain(handler));
  // The queue tells only when it has been empty.
  const bool is_cut_short = result.events >= max_records || result.is_connection_lost;
  if (is_cut_short && wakeup_ != nullptr) wakeup_->Notify();
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
