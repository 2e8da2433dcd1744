// Which processes host which shards: ProcessTable's part of it.
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "processors/process_table.h"
#include "processors/worker_hosts.h"
#include "topics/control_codec.h"

namespace millrace {
namespace {

// Shards stay where they are for ever, so all processes count alike, also those that do not run.
constexpr uint64_t kAnyTicks = kReadyTicks;

const ProcessGroup* WithShards(const ProcessPlan& plan) {
  for (const ProcessGroup& group : plan.groups()) {
    if (group.shards() > 0) return &group;
  }
  return nullptr;
}

}  // namespace

void ProcessTable::DealShards(const ProcessPlan& before) {
  const ProcessGroup* const old = WithShards(before);
  const ProcessGroup* const group = WithShards(plan_);
  // What was moved stays there, as long as the job has the same processes.
  if (old != nullptr && group != nullptr && old->name() == group->name() &&
      old->count() == group->count() && old->shards() == group->shards()) {
    return;
  }
  std::vector<WorkerHost> hosts;
  for (auto& [key, process] : processes_) {
    if (group != nullptr && GroupOf(key) == group) {
      hosts.push_back({key.second, kAnyTicks, {process.shards().begin(), process.shards().end()}});
      std::erase_if(hosts.back().workers, [&](uint32_t shard) { return shard >= group->shards(); });
    } else if (!process.shards().empty()) {
      process.clear_shards();
      changed_.insert(key);
    }
  }
  if (group == nullptr) return;
  AssignWorkers(group->shards(), group->count(), hosts);
  for (const WorkerHost& host : hosts) {
    const Key key(group->name(), host.rank);
    auto& shards = *processes_.at(key).mutable_shards();
    if (std::ranges::equal(shards, host.workers)) continue;
    shards.Assign(host.workers.begin(), host.workers.end());
    changed_.insert(key);
  }
}

Status ProcessTable::MoveShard(const ShardMove& move) {
  const ProcessGroup* const group = WithShards(plan_);
  const std::string shard = "shard " + std::to_string(move.shard());
  if (phase_ != MasterState::ACTIVE || group == nullptr) {
    return absl::FailedPreconditionError("no process of the job hosts shards now, so " + shard +
                                         " cannot be moved");
  }
  if (move.shard() >= group->shards()) {
    return absl::InvalidArgumentError("the job has no " + shard);
  }
  if (move.rank() >= group->count()) {
    return absl::InvalidArgumentError(shard + " cannot be moved to " + group->name() + "-" +
                                      std::to_string(move.rank()) + ", which is not in the plan");
  }
  const Key to(group->name(), move.rank());
  ProcessState& taker = processes_.at(to);
  if (taker.phase() == ProcessState::ENDED || taker.phase() == ProcessState::FAILED) {
    return absl::FailedPreconditionError(shard + " cannot be moved to " + ToText(taker.process()) +
                                         ", which does not run any more");
  }
  if (std::ranges::find(taker.shards(), move.shard()) != taker.shards().end()) {
    return absl::OkStatus();
  }
  for (auto& [key, process] : processes_) {
    auto& shards = *process.mutable_shards();
    const auto place = std::ranges::find(shards, move.shard());
    if (place == shards.end()) continue;
    shards.erase(place);
    changed_.insert(key);
  }
  taker.add_shards(move.shard());
  std::ranges::sort(*taker.mutable_shards());
  changed_.insert(to);
  return absl::OkStatus();
}

Status ProcessTable::CheckShards() const {
  const ProcessGroup* const group = WithShards(plan_);
  std::set<uint32_t> hosted;
  for (const auto& [key, process] : processes_) {
    if (process.shards().empty()) continue;
    const std::string name = ToText(process.process());
    if (group == nullptr || GroupOf(key) != group) {
      return absl::InvalidArgumentError(name + " hosts shards, but is not there for that");
    }
    for (const uint32_t shard : process.shards()) {
      if (shard >= group->shards()) {
        return absl::InvalidArgumentError(name + " hosts a shard that the job does not have");
      }
      if (!hosted.insert(shard).second) {
        return absl::InvalidArgumentError(name + " hosts a shard of another");
      }
    }
    if (!std::ranges::is_sorted(process.shards())) {
      return absl::InvalidArgumentError("the shards of " + name + " are not in their order");
    }
  }
  if (group == nullptr || hosted.size() == group->shards()) return absl::OkStatus();
  return absl::InvalidArgumentError("a shard is hosted by nobody");
}

}  // namespace millrace
