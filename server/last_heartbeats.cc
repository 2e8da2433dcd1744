#include "server/last_heartbeats.h"

#include <algorithm>
#include <utility>

#include "messages/records.pb.h"
#include "topics/metric_point_codec.h"

namespace millrace {

StatusOr<std::unique_ptr<LastHeartbeats>> LastHeartbeats::Create(const JobConfig& config,
                                                                 int64_t now_ms, Wakeup* wakeup) {
  MILLRACE_ASSIGN_OR_RETURN(
      MetricPoints points,
      MetricPoints::TryToOpen(config, "last-heartbeats", MetricPoints::kFewMinutes, wakeup));
  return std::unique_ptr<LastHeartbeats>(new LastHeartbeats(now_ms, std::move(points)));
}

StatusOr<size_t> LastHeartbeats::Poll() {
  return points_.Poll([this](const ConsumedRecord& record) {
    Take(record);
    return absl::OkStatus();
  });
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
