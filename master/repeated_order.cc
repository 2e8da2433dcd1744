#include "master/repeated_order.h"

#include <spdlog/spdlog.h>

#include "base/big_endian.h"
#include "base/types.h"
#include "job/kafka_options.h"
#include "topics/frame.h"
#include "topics/message_codec.h"
#include "topics/topics.h"

namespace millrace {

Status RepeatedOrder::Tick(uint32_t layout, std::optional<Gradient> order) {
  const std::string topic = TopicName(LayoutName(config_.name(), layout), Topic::kGradients);
  if (producer_ != nullptr) {
    producer_->Poll(std::chrono::milliseconds(0));
    for (const FailedDelivery& failure : producer_->TakeFailures()) {
      spdlog::warn("{}: the order to shard 0 {} was not delivered: {}. MasterApp sends it again",
                   topic, what_, failure.reason);
    }
  }
  const auto now = std::chrono::steady_clock::now();
  if (!order || now < next_) return absl::OkStatus();
  next_ = now + every_;
  if (producer_ == nullptr) {
    ProducerOptions options;
    options.client_id = client_id_;
    MILLRACE_ASSIGN_OR_RETURN(producer_,
                              KafkaProducer::Create(ToKafkaOptions(config_), options, nullptr));
  }
  order->set_epoch(config_.epoch());
  order->set_worker(kNoWorker);
  MILLRACE_ASSIGN_OR_RETURN(const std::string body, SerializeMessage(*order));
  const Status sent =
      producer_->Send(topic, 0, EncodeBigEndian32(kNoWorker), MakeFrames(body, 0).front());
  // Its queue is full, or the client is of no use any more: another one says it.
  if (!sent.ok()) producer_.reset();
  return absl::OkStatus();
}

}  // namespace millrace
