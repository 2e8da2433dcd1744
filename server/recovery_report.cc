#include "server/recovery_report.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "server/server_metrics.h"

namespace millrace {
namespace {

// A shard's last sign of life is looked for so long after its recovery, at most.
constexpr std::chrono::seconds kForHeartbeats(2);

double SecondsBetween(RecoveryReport::Time from, RecoveryReport::Time to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

RecoveryReport::RecoveryReport(const JobConfig& config, Wakeup* wakeup)
    : started_(std::chrono::steady_clock::now()), to_read_({config, wakeup, NowMs()}) {}

// Not before: those who wait for the shard need no report.
void RecoveryReport::ReadHeartbeats() {
  const Reading of = *std::exchange(to_read_, std::nullopt);
  StatusOr<std::unique_ptr<LastHeartbeats>> heartbeats =
      LastHeartbeats::Create(of.config, of.started_ms, of.wakeup);
  if (heartbeats.ok()) heartbeats_ = *std::move(heartbeats);
}

double RecoveryReport::Restored(ShardId shard, const RecoveryPhases& phases, Time now) {
  shards_[shard] = {phases, now};
  return SecondsBetween(started_, now);
}

void RecoveryReport::Answered(ShardId shard, uint64_t gradients, Time now) {
  Shard& recovered = shards_.at(shard);
  recovered.answered = now;
  recovered.phases.gradients_records = gradients;
  recovered.phases.gradients_s = SecondsBetween(recovered.replay_began, now);
  recovered.phases.total_s = SecondsBetween(started_, now);
}

void RecoveryReport::Tick(Time now) {
  const auto has_answered = [](const auto& shard) { return shard.second.answered.has_value(); };
  if (to_read_ && std::ranges::any_of(shards_, has_answered)) ReadHeartbeats();
  if (heartbeats_) {
    const Status polled = heartbeats_->Poll().status();
    if (!polled.ok()) {
      spdlog::warn("it cannot be found out for how long shards were down: {}", TextOf(polled));
      heartbeats_.reset();
    }
  }
  bool all = true;
  for (auto& [shard, recovered] : shards_) {
    if (recovered.reported) continue;
    const bool enough = recovered.answered && (!heartbeats_ || heartbeats_->done() ||
                                               now - *recovered.answered > kForHeartbeats);
    if (!enough) {
      all = false;
      continue;
    }
    recovered.reported = true;
    if (heartbeats_) recovered.phases.down_ms = heartbeats_->DownMs(shard);
    if (!recovered.phases.recovered()) continue;
    recovered.point = ToRecoveryPoint(recovered.phases);
    spdlog::info("shard {}: {}", shard, RecoveryText(recovered.phases));
  }
  if (all) heartbeats_.reset();
}

}  // namespace millrace
