#include "server/last_heartbeats.h"

#include <algorithm>

#include "job/kafka_options.h"
#include "kafka/timeouts.h"
#include "messages/records.pb.h"
#include "topics/metric_point_codec.h"
#include "topics/topics.h"

namespace millrace {
namespace {

// So many of the last records: a few minutes of a job of some shards.
constexpr int64_t kRecordsBack = 4096;
constexpr size_t kHeartbeatsAtOnce = 1000;

}  // namespace

StatusOr<std::unique_ptr<LastHeartbeats>> LastHeartbeats::Create(const JobConfig& config,
                                                                 int64_t now_ms, Wakeup* wakeup) {
  std::unique_ptr<LastHeartbeats> heartbeats(new LastHeartbeats(now_ms));
  ConsumerOptions options;
  options.client_id = "last-heartbeats";
  options.queue_kbytes = 4096;
  MILLRACE_ASSIGN_OR_RETURN(
      heartbeats->consumer_,
      PartitionConsumer::Create(ToKafkaOptions(config), options,
                                TopicName(config.name(), Topic::kMetrics), wakeup));
  MILLRACE_ASSIGN_OR_RETURN(const PartitionConsumer::Range range,
                            heartbeats->consumer_->QueryRange(0, kBrokerCall));
  MILLRACE_RETURN_IF_ERROR(
      heartbeats->consumer_->Assign(0, std::max(range.begin, range.end - kRecordsBack)));
  return heartbeats;
}

StatusOr<size_t> LastHeartbeats::Poll() {
  ConsumerHandler handler;
  handler.on_record = [this](const ConsumedRecord& record) {
    Take(record);
    return absl::OkStatus();
  };
  handler.on_end = [this](int32_t, Offset) { done_ = true; };
  handler.on_out_of_range = [this](int32_t) {
    done_ = true;
    return absl::OkStatus();
  };
  return consumer_->Poll(kHeartbeatsAtOnce, handler);
}

void LastHeartbeats::Take(const ConsumedRecord& record) {
  if (!record.key.starts_with("server/")) return;
  const StatusOr<MetricPoint> point = DecodeMetricPoint(record.value);
  if (!point.ok() || !point->has_server() || point->timestamp_ms() >= now_ms_) return;
  int64_t& newest = newest_ms_[ShardId(point->server().shard())];
  newest = std::max(newest, point->timestamp_ms());
}

std::optional<int64_t> LastHeartbeats::DownMs(ShardId shard) const {
  const auto found = newest_ms_.find(shard);
  if (found == newest_ms_.end()) return std::nullopt;
  return now_ms_ - found->second;
}

}  // namespace millrace
