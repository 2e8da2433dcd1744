#include "server/job_end.h"

#include <spdlog/spdlog.h>

#include <string>

#include "kafka/broker_retry.h"
#include "kafka/timeouts.h"

namespace millrace {

Status JobEnd::Publish(const std::vector<ShardId>& shards) {
  for (const ShardId shard : shards) MILLRACE_RETURN_IF_ERROR(registry_.PublishEnded(shard));
  return absl::OkStatus();
}

StatusOr<bool> JobEnd::AllShardsEnded(Time now) {
  if (all_ended_ || now < next_look_) return all_ended_;
  next_look_ = now + kRegistryEveryAtTheEnd;
  const StatusOr<std::set<ShardId>> ended = registry_.ReadEnded();
  // --broker-timeout is for those that begin: here all is done, and somebody may still ask.
  if (IsAway(ended.status())) return false;
  MILLRACE_RETURN_IF_ERROR(ended.status());
  all_ended_ = EveryShardEnded(*ended, training_.shards());
  if (all_ended_) {
    spdlog::info("the job has ended: every worker has left every shard");
  } else if (now >= next_report_) {
    const std::chrono::duration<double> interval(config_.server().waiting_report_s());
    next_report_ = now + std::chrono::duration_cast<Time::duration>(interval);
    ReportWhoHasNotEnded(*ended);
  }
  return all_ended_;
}

void JobEnd::ReportWhoHasNotEnded(const std::set<ShardId>& ended) const {
  std::string shards;
  for (ShardId shard = 0; shard < training_.shards(); ++shard) {
    if (!ended.contains(shard)) shards += (shards.empty() ? "" : ", ") + std::to_string(shard);
  }
  spdlog::info(
      "all workers have left this process's shards; waiting until they have left shards {}; check "
      "that the ServerApps of these shards run",
      shards);
}

}  // namespace millrace
