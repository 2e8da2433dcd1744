#include "server/cut_saver.h"

#include <spdlog/spdlog.h>

#include <string>
#include <utility>

#include "base/check.h"

namespace millrace {

void CutSaver::Enter(HostedShard& hosted, ServerOptions options, Time now) {
  MILLRACE_CHECK(hosted.task().snapshot().has_value());
  const auto [entry, is_new] = held_.try_emplace(hosted.shard());
  MILLRACE_CHECK(is_new);
  Held& held = entry->second;
  held.hosted = &hosted;
  held.options = std::move(options);
  held.snapshot = *hosted.task().snapshot();
  held.since = now;
}

StatusOr<std::vector<ShardId>> CutSaver::Advance(Time now) {
  std::vector<ShardId> leaving;
  for (auto& [shard, held] : held_) {
    MILLRACE_ASSIGN_OR_RETURN(const bool may_leave, Step(held, now));
    if (may_leave) leaving.push_back(shard);
  }
  for (const ShardId shard : leaving) held_.erase(shard);
  return leaving;
}

StatusOr<bool> CutSaver::Step(Held& held, Time now) {
  const ShardId shard = held.hosted->shard();
  if (held.writing) {
    if (!held.done) return false;
    snapshots_.PartWritten(held.snapshot, shard, held.written, held.since, now);
    return true;
  }
  MILLRACE_ASSIGN_OR_RETURN(const bool tried, held.hosted->AdvanceSave(now));
  if (!tried) return false;
  if (!held.hosted->task().saved()) {
    spdlog::warn(
        "shard {}: snapshot {}: this shard's part was not written, since the checkpoint at its cut "
        "failed; request another snapshot",
        shard, held.snapshot);
    return true;
  }
  held.writing = true;
  // The task and the store stand still until the shard leaves: reading them is safe.
  writer_.Post(std::to_string(shard), [this, &held] {
    held.written = snapshots_.WritePart(held.snapshot, held.options,
                                        held.hosted->task().processor(), held.hosted->store());
    held.done = true;
  });
  return false;
}

}  // namespace millrace
