#include "tests/simulation/worker_apps.h"

#include <algorithm>
#include <string_view>

#include "topics/process_name.h"

namespace millrace::simulation {

void WorkerApps::Read(const PlanChanges& changes,
                      const std::vector<MasterMachine::Life*>& running) {
  for (const auto& [key, value] : changes) {
    plan_.Take(key, value ? std::string_view(*value) : std::string_view());
  }
  for (const MasterMachine::Life* life : running) {
    const Key key(ToText(life->report.process()), life->report.incarnation());
    std::vector<uint32_t>& shards = shards_[key];
    if (error_ != MasterError::kKeepsShardsForEver || shards.empty()) {
      shards = plan_.ShardsOf({key.first, key.second});
    }
    std::set<int32_t>& hosted = hosted_[key];
    if (error_ == MasterError::kReadsThePlanOnce && !hosted.empty()) continue;
    const std::set<int32_t> now = plan_.WorkersOf({key.first, key.second});
    if (!now.empty() && !std::ranges::includes(now, hosted)) has_seen_move_ = true;
    hosted = now;
  }
}

std::string WorkerApps::WhatIsWrong(uint32_t logical_workers,
                                    const std::vector<MasterMachine::Life*>& running) const {
  std::map<int32_t, std::string> host_of;
  size_t hosts = 0;
  size_t most = 0;
  size_t least = logical_workers;
  for (const MasterMachine::Life* life : running) {
    if (life->report.process().group() != "worker") continue;
    const Key key(ToText(life->report.process()), life->report.incarnation());
    const auto found = hosted_.find(key);
    const std::set<int32_t> hosted = found == hosted_.end() ? std::set<int32_t>() : found->second;
    for (const int32_t worker : hosted) {
      const auto [entry, is_new] = host_of.emplace(worker, key.first);
      if (!is_new) {
        return "worker " + std::to_string(worker) + " is hosted by " + entry->second + " and by " +
               key.first;
      }
    }
    ++hosts;
    most = std::max(most, hosted.size());
    least = std::min(least, hosted.size());
  }
  if (hosts == 0) return "";
  for (uint32_t worker = 0; worker < logical_workers; ++worker) {
    if (!host_of.contains(static_cast<int32_t>(worker))) {
      return "worker " + std::to_string(worker) + " is hosted by nobody";
    }
  }
  if (host_of.size() > logical_workers) return "more workers are hosted than there are";
  return most > least + 1 ? "workers are not shared evenly" : "";
}

std::string WorkerApps::WhatIsWrongWithShards(
    const std::map<uint32_t, uint32_t>& moved,
    const std::vector<MasterMachine::Life*>& running) const {
  std::map<uint32_t, std::string> host_of;
  for (const MasterMachine::Life* life : running) {
    const Key key(ToText(life->report.process()), life->report.incarnation());
    const auto found = shards_.find(key);
    if (found == shards_.end()) continue;
    for (const uint32_t shard : found->second) {
      const auto [entry, is_new] = host_of.emplace(shard, key.first);
      if (!is_new) {
        return "shard " + std::to_string(shard) + " is hosted by " + entry->second + " and by " +
               key.first;
      }
    }
  }
  for (const auto& [shard, rank] : moved) {
    const std::string wanted = "server-" + std::to_string(rank);
    const bool runs = std::ranges::any_of(running, [&](const MasterMachine::Life* life) {
      return ToText(life->report.process()) == wanted;
    });
    const auto host = host_of.find(shard);
    if (host == host_of.end() ? runs : host->second != wanted) {
      return "shard " + std::to_string(shard) + " was moved to " + wanted + ", which has it not";
    }
  }
  return "";
}

}  // namespace millrace::simulation
