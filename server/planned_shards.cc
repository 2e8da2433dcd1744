#include "server/planned_shards.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "durability/checkpoints/shard_store.h"
#include "job/kafka_options.h"
#include "kafka/timeouts.h"

namespace millrace {
namespace {

// For who hosts nothing, and ends with the job.
constexpr std::chrono::seconds kLookForJobEndEvery(1);

}  // namespace

StatusOr<std::unique_ptr<PlannedShards>> PlannedShards::Create(const JobConfig& config,
                                                               Incarnation self,
                                                               const JobTraining& training,
                                                               JobRegistry& registry,
                                                               const std::atomic<bool>& stop) {
  std::unique_ptr<PlannedShards> planned(
      new PlannedShards(config, std::move(self), training, registry, stop));
  MILLRACE_RETURN_IF_ERROR(planned->Begin());
  MILLRACE_RETURN_IF_ERROR(planned->ReadToTheEnd());
  return planned;
}

Status PlannedShards::Begin() {
  MILLRACE_ASSIGN_OR_RETURN(
      plan_, PlanFollower::Create(ToKafkaOptions(config_), config_.name(), false, &wakeup_));
  return broker_retry_.Run([this] { return plan_->Begin(kBrokerCall); });
}

Status PlannedShards::ReadToTheEnd() {
  while (true) {
    if (stop_) return absl::CancelledError("stopped");
    MILLRACE_RETURN_IF_ERROR(plan_->Poll().status());
    if (plan_->is_read()) return absl::OkStatus();
    wakeup_.WaitFor(kPoll);
  }
}

std::vector<ShardId> PlannedShards::Now() const {
  // (While the plan has not heard of the layout that is in force, it says nothing of its shards.)
  if (plan_->hosts().LayoutOf(self_) != training_.layout()) return {};
  const std::vector<uint32_t> shards = plan_->hosts().ShardsOf(self_);
  return {shards.begin(), shards.end()};
}

StatusOr<std::vector<ShardId>> PlannedShards::Wait() {
  bool said = false;
  auto next_look = std::chrono::steady_clock::now();
  while (true) {
    if (stop_) return absl::CancelledError("stopped");
    MILLRACE_RETURN_IF_ERROR(plan_->Poll().status());
    if (plan_->hosts().IsReplaced(self_)) {
      return absl::FailedPreconditionError(absl::StrCat("MasterApp has started ", self_.process,
                                                        " again: this process, its start ",
                                                        self_.number, ", is not needed any more"));
    }
    if (is_of_later_layout()) return std::vector<ShardId>();
    std::vector<ShardId> shards = Now();
    if (!shards.empty() && shards.back() >= training_.shards()) {
      return absl::FailedPreconditionError(
          absl::StrCat("MasterApp's plan gives this process shard ", uint32_t{shards.back()},
                       ", but the job ", config_.name(), " has ", training_.shards(),
                       " shards: stop MasterApp, and start it again with the --shards of the job"));
    }
    if (!shards.empty()) return shards;
    if (const auto now = std::chrono::steady_clock::now(); now >= next_look) {
      if (!std::exchange(said, true)) {
        spdlog::info("no shard is given to this process: it waits for one, or for the job's end");
      }
      next_look = now + kLookForJobEndEvery;
      const StatusOr<std::set<ShardId>> ended = registry_.ReadEnded();
      if (!IsAway(ended.status())) MILLRACE_RETURN_IF_ERROR(ended.status());
      const bool job_ended = ended.ok() && EveryShardEnded(*ended, training_.shards());
      if (job_ended && !config_.server().stay()) return std::vector<ShardId>();
    }
    wakeup_.WaitFor(kPoll);
  }
}

void PlannedShards::RemoveStoresOfOthers() const {
  for (ShardId shard = 0; shard < training_.shards(); ++shard) {
    const std::string host = plan_->hosts().HostOf(shard);
    if (host.empty() || host == self_.process) continue;
    const Status removed = RemoveShardStores(config_, shard);
    if (removed.ok()) continue;
    spdlog::warn("shard {}: {}", uint32_t{shard}, std::string(removed.message()));
  }
}

StatusOr<bool> PlannedShards::AreStill(const std::vector<ShardId>& shards) {
  MILLRACE_ASSIGN_OR_RETURN(const bool has_changed, plan_->Poll());
  return !has_changed || Now() == shards;
}

StatusOr<bool> PlannedShards::AreStillAtTheEnd(const std::vector<ShardId>& shards) {
  MILLRACE_RETURN_IF_ERROR(Begin());
  MILLRACE_RETURN_IF_ERROR(ReadToTheEnd());
  return Now() == shards;
}

}  // namespace millrace
