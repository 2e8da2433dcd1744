// When the shards were last heard from before this server started.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/status.h"
#include "base/types.h"
#include "job/metric_points.h"
#include "kafka/consumer.h"
#include "kafka/wakeup.h"
#include "messages/job.pb.h"

namespace millrace {

// Reads the end of `metrics`, where each shard's server writes four points a second. Runs in
// parallel with the recovery, which never waits for it. Used by one thread.
class LastHeartbeats {
 public:
  // Only points from before `now_ms` count. `wakeup` outlives it.
  static StatusOr<std::unique_ptr<LastHeartbeats>> Create(const JobConfig& config, int64_t now_ms,
                                                          Wakeup* wakeup);

  // Processes some of the received points, without waiting; returns the number of events.
  StatusOr<size_t> Poll();
  // Whether the end as of when reading began has been reached.
  bool done() const { return points_.is_read(); }
  // Milliseconds since the shard's last point; empty: none is among the topic's last records.
  std::optional<int64_t> DownMs(ShardId shard) const;

 private:
  LastHeartbeats(int64_t now_ms, MetricPoints points)
      : now_ms_(now_ms), points_(std::move(points)) {}
  void Take(const ConsumedRecord& record);

  const int64_t now_ms_;
  MetricPoints points_;
  std::map<ShardId, int64_t> newest_ms_;
};

}  // namespace millrace
