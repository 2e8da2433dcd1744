// Which processes host which shards: ProcessTable's part of it.
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "processors/process_table.h"
#include "processors/worker_hosts.h"
#include "topics/control_codec.h"
#include "topics/topics.h"

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

uint32_t ProcessTable::ShardsNow() const {
  const ProcessGroup* const group = WithShards(plan_);
  if (group == nullptr) return 0;
  return layout_ ? layout_->shards() : group->shards();
}

void ProcessTable::DealShards(const ProcessPlan& before, uint32_t shards_before) {
  const ProcessGroup* const old = WithShards(before);
  const ProcessGroup* const group = WithShards(plan_);
  const uint32_t shards = ShardsNow();
  // What was moved stays there, as long as the job has the same processes.
  if (old != nullptr && group != nullptr && old->name() == group->name() &&
      old->count() == group->count() && shards_before == shards) {
    return;
  }
  std::vector<WorkerHost> hosts;
  for (auto& [key, process] : processes_) {
    if (group != nullptr && GroupOf(key) == group) {
      hosts.push_back({key.second, kAnyTicks, {process.shards().begin(), process.shards().end()}});
    } else if (!process.shards().empty()) {
      process.clear_shards();
      changed_.insert(key);
    }
  }
  if (group == nullptr) return;
  AssignWorkers(shards, {}, group->count(), hosts);
  const uint32_t layout = layout_ ? layout_->number() : 0;
  for (const WorkerHost& host : hosts) {
    const Key key(group->name(), host.rank);
    ProcessState& process = processes_.at(key);
    if (std::ranges::equal(process.shards(), host.workers) && process.layout() == layout) continue;
    process.mutable_shards()->Assign(host.workers.begin(), host.workers.end());
    process.set_layout(layout);
    changed_.insert(key);
  }
}

Status ProcessTable::Reshard(const ShardLayout& next) {
  const uint32_t number = layout_ ? layout_->number() : 0;
  if (next.number() <= number) return absl::OkStatus();  // it was carried out before
  if (phase_ != MasterState::ACTIVE || WithShards(plan_) == nullptr) {
    return absl::FailedPreconditionError(
        "no process of the job hosts shards now, so their number cannot be changed");
  }
  if (next.number() != number + 1 || next.number() >= kMostLayouts) {
    return absl::InvalidArgumentError("the job has layout " + std::to_string(number) +
                                      " of its shards, so it cannot go over to layout " +
                                      std::to_string(next.number()));
  }
  if (next_shards_ == next.shards()) return absl::OkStatus();
  if (next_shards_ != 0) {
    return absl::FailedPreconditionError(
        "the job is going over to " + std::to_string(next_shards_) + " shards, and cannot go to " +
        std::to_string(next.shards()) + " before it has them");
  }
  if (next.shards() == ShardsNow()) {
    return absl::InvalidArgumentError("the job has " + std::to_string(next.shards()) +
                                      " shards already");
  }
  next_shards_ = next.shards();
  return absl::OkStatus();
}

Status ProcessTable::HaveLayout(const ShardLayout& layout) {
  if (layout_ && layout.number() <= layout_->number()) return absl::OkStatus();
  if (layout.number() == 0) return absl::OkStatus();
  const uint32_t shards_before = ShardsNow();
  layout_ = layout;
  next_shards_ = 0;
  if (shards_before == 0) return absl::OkStatus();
  // The shards of two layouts have nothing in common, whatever their numbers: all are dealt out.
  DealShards(ProcessPlan(), shards_before);
  return absl::OkStatus();
}

Status ProcessTable::CheckLayout() const {
  const bool is_one = !layout_ || (layout_->number() >= 1 && layout_->number() < kMostLayouts &&
                                   layout_->shards() >= 1 && layout_->shards() <= kMostShards);
  if (is_one && next_shards_ <= kMostShards) return absl::OkStatus();
  return absl::InvalidArgumentError("it has a layout of shards that no job has");
}

Status ProcessTable::MoveShard(const ShardMove& move) {
  const ProcessGroup* const group = WithShards(plan_);
  const std::string shard = "shard " + std::to_string(move.shard());
  if (phase_ != MasterState::ACTIVE || group == nullptr) {
    return absl::FailedPreconditionError("no process of the job hosts shards now, so " + shard +
                                         " cannot be moved");
  }
  if (move.shard() >= ShardsNow()) {
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
    if (process.layout() != (layout_ ? layout_->number() : 0)) {
      return absl::InvalidArgumentError(name + " hosts shards of another layout than the job's");
    }
    for (const uint32_t shard : process.shards()) {
      if (shard >= ShardsNow()) {
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
  if (group == nullptr || hosted.size() == ShardsNow()) return absl::OkStatus();
  return absl::InvalidArgumentError("a shard is hosted by nobody");
}

}  // namespace millrace
