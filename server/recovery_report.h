// Logs the recovery of a server's shards.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "base/types.h"
#include "kafka/wakeup.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"
#include "server/last_heartbeats.h"
#include "server/recovery_phases.h"

namespace millrace {

// Measures a start, by default from its own construction on, and logs a line for each shard once it
// is known how long the shard had been down. Recovery never waits for that, and does not fail when
// it cannot be found out. Not thread-safe.
class RecoveryReport {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `config` and `wakeup` outlive it.
  RecoveryReport(const JobConfig& config, Wakeup* wakeup);
  // For a start at that time; how long shards had been down is not reported.
  explicit RecoveryReport(Time started) : started_(started) {}

  // The shard's copy is in memory, and the replay begins. Returns seconds since the start.
  double Restored(ShardId shard, const RecoveryPhases& phases, Time now);
  // The shard answers, having replayed so many gradients.
  void Answered(ShardId shard, uint64_t gradients, Time now);
  void Tick(Time now);

  // Empty: not known yet, or there was nothing to recover.
  const std::optional<MetricPoint::ServerProgress::Recovery>& point(ShardId shard) const {
    return shards_.at(shard).point;
  }

 private:
  struct Shard {
    RecoveryPhases phases;
    Time replay_began;
    std::optional<Time> answered{};
    bool reported = false;
    std::optional<MetricPoint::ServerProgress::Recovery> point{};
  };

  const Time started_;
  struct Reading {  // of the heartbeats
    const JobConfig& config;
    Wakeup* wakeup;
    int64_t started_ms;
  };
  void ReadHeartbeats();

  std::optional<Reading> to_read_;  // once a shard has answered; empty: not at all, or already
  std::unique_ptr<LastHeartbeats> heartbeats_;
  std::map<ShardId, Shard> shards_;
};

}  // namespace millrace
