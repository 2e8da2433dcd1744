#include "server/waiting_report.h"

#include <spdlog/spdlog.h>

#include <string>
#include <vector>

namespace millrace {

void WaitingReport::Tick(const ShardTask& task, Time now) {
  const std::vector<WorkerId> missing = task.processor().WaitedFor();
  const bool lost = task.processor().state_lost();
  // (Workers repeat to a shard without state what they have: that is no progress.)
  const Offset position = lost ? Offset(0) : task.position();
  Waiting& waiting = waiting_[task.shard()];
  if ((missing.empty() && !lost) || waiting.position != position) {
    waiting = {position, now, now};
    return;
  }
  if (now - waiting.reported < interval_) return;
  waiting.reported = now;
  if (missing.empty()) {
    spdlog::warn(
        "shard {}: cannot be restored: no worker has its weights, since all workers started after "
        "the loss. Start a new job (another --job)",
        task.shard());
    return;
  }
  std::string names;
  for (const WorkerId worker : missing) names += " " + std::to_string(worker);
  const std::chrono::duration<double> since = now - waiting.since;
  if (lost) {
    spdlog::warn(
        "shard {}: has waited {:.0f} s for the reports of workers{}; check that WorkerApps run",
        task.shard(), since.count(), names);
  } else {
    spdlog::warn(
        "shard {}: has waited {:.0f} s for updates of workers{}; check that WorkerApps run and "
        "that rows arrive",
        task.shard(), since.count(), names);
  }
}

}  // namespace millrace
