#include "master/shard_layouts.h"

#include <spdlog/spdlog.h>

#include <string>
#include <utility>
#include <vector>

#include "base/big_endian.h"
#include "job/kafka_options.h"
#include "kafka/broker_retry.h"
#include "topics/frame.h"
#include "topics/message_codec.h"
#include "topics/topics.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr seconds kLayoutLookEvery(5);  // for a job that begins
constexpr milliseconds kLookEveryOnTheWay(300);
constexpr seconds kReshardOrderEvery(1);

}  // namespace

StatusOr<std::optional<ShardLayout>> ShardLayouts::Look(const MasterState& state) {
  const bool is_on_the_way = state.next_shards() > 0;
  const Time now = steady_clock::now();
  if ((has_looked_ && !is_on_the_way) || now < next_look_) return std::optional<ShardLayout>();
  if (is_on_the_way) {
    next_look_ = now + kLookEveryOnTheWay;
  } else {
    next_look_ = now + kLayoutLookEvery;
  }
  if (!registry_) {
    MILLRACE_ASSIGN_OR_RETURN(registry_, JobRegistry::Create(config_, stop_));
  }
  const StatusOr<std::vector<uint32_t>> layouts = registry_->ReadLayouts();
  // (The topic is made by the job's first process.)
  if (IsAway(layouts.status()) || absl::IsNotFound(layouts.status()) || stop_) {
    return std::optional<ShardLayout>();
  }
  if (absl::IsPermissionDenied(layouts.status())) {
    has_looked_ = true;
    if (is_on_the_way && !std::exchange(is_denied_, true)) {
      spdlog::warn(
          "the job's servers wait for MasterApp, which does not know their shards: {}. "
          "Let its user read the topic job (docs/security.md)",
          TextOf(layouts.status()));
    }
    return std::optional<ShardLayout>();
  }
  MILLRACE_RETURN_IF_ERROR(layouts.status());
  if (layouts->empty()) return std::optional<ShardLayout>();
  has_looked_ = true;
  ShardLayout in_force;
  in_force.set_number(static_cast<uint32_t>(layouts->size() - 1));
  in_force.set_shards(layouts->back());
  if (in_force.number() <= state.layout().number()) return std::optional<ShardLayout>();
  return std::optional<ShardLayout>(in_force);
}

Status ShardLayouts::Order(const MasterState& state) {
  const std::string topic =
      TopicName(LayoutName(config_.name(), state.layout().number()), Topic::kGradients);
  if (orders_ != nullptr) {
    orders_->Poll(milliseconds(0));
    for (const FailedDelivery& failure : orders_->TakeFailures()) {
      spdlog::warn(
          "{}: the order to shard 0 to change the shards was not delivered: {}. It is said again",
          topic, failure.reason);
    }
  }
  const Time now = steady_clock::now();
  if (state.next_shards() == 0 || now < next_order_) return absl::OkStatus();
  next_order_ = now + kReshardOrderEvery;
  if (orders_ == nullptr) {
    ProducerOptions options;
    options.client_id = "master-reshard";
    MILLRACE_ASSIGN_OR_RETURN(orders_,
                              KafkaProducer::Create(ToKafkaOptions(config_), options, nullptr));
  }
  Gradient message;
  message.set_epoch(config_.epoch());
  message.set_worker(kNoWorker);
  message.mutable_reshard()->set_layout(state.layout().number());
  message.mutable_reshard()->set_shards(state.next_shards());
  MILLRACE_ASSIGN_OR_RETURN(const std::string body, SerializeMessage(message));
  const Status sent =
      orders_->Send(topic, 0, EncodeBigEndian32(kNoWorker), MakeFrames(body, 0).front());
  // Its queue is full, or the client is of no use any more: another one says it.
  if (!sent.ok()) orders_.reset();
  return absl::OkStatus();
}

}  // namespace millrace
