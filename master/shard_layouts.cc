#include "master/shard_layouts.h"

#include <spdlog/spdlog.h>

#include <utility>
#include <vector>

#include "job/kafka_options.h"
#include "kafka/admin.h"
#include "kafka/broker_retry.h"
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

ShardLayouts::ShardLayouts(const JobConfig& config, const std::atomic<bool>& stop)
    : config_(config),
      stop_(stop),
      order_(config, "master-reshard", "to change the shards", kReshardOrderEvery) {}

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
    // The registry would wait for its topic, which is made by a process that is not started yet.
    MILLRACE_ASSIGN_OR_RETURN(const bool is_there, IsTopicThere());
    if (!is_there) return std::optional<ShardLayout>();
    MILLRACE_ASSIGN_OR_RETURN(registry_, JobRegistry::Create(config_, stop_));
  }
  const StatusOr<std::vector<uint32_t>> layouts = registry_->ReadLayouts();
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

StatusOr<bool> ShardLayouts::IsTopicThere() const {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<KafkaAdmin> admin,
                            KafkaAdmin::Create(ToKafkaOptions(config_), "master-layouts"));
  const Status found = admin->PartitionCount(TopicName(config_.name(), Topic::kJob)).status();
  return !IsAway(found) && !absl::IsNotFound(found);
}

Status ShardLayouts::Order(const MasterState& state) {
  std::optional<Gradient> order;
  if (state.next_shards() > 0) {
    order.emplace().mutable_reshard()->set_layout(state.layout().number());
    order->mutable_reshard()->set_shards(state.next_shards());
  }
  return order_.Tick(state.layout().number(), std::move(order));
}

}  // namespace millrace
