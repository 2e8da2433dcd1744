#include "apps/topology_groups.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "tasks/group_checks.h"

namespace millrace {
namespace {

Status CheckThreads(const Topology& topology) {
  for (const ServerConfig& server : topology.server()) {
    if (server.threads() == 1) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "topology: server ", server.id(), " has ", server.threads(),
        " threads, and where groups exchange deltas (Worker-Replicated-Server) a server has one "
        "shard: give it threads 1, and its group more servers"));
  }
  return absl::OkStatus();
}

// The groups in the order of their servers' ids.
std::vector<const ServerSet*> InOrder(const Topology& topology) {
  std::vector<const ServerSet*> groups;
  for (const ServerSet& group : topology.server_group()) groups.push_back(&group);
  std::ranges::sort(groups, {}, [](const ServerSet* group) {
    return *std::ranges::min_element(group->neighbor());
  });
  return groups;
}

Status NotInOrder(const ServerSet& group) {
  return absl::InvalidArgumentError(absl::StrCat(
      "topology: the servers of server_group ", group.id(),
      " do not have the next numbers: where groups exchange deltas (Worker-Replicated-Server) "
      "number the servers group by group, from 0 and in the order in which the group lists them, "
      "and a group after its neighbor"));
}

// `places`: of the groups, by their ids.
void AddWorkers(const Topology& topology, const std::map<uint32_t, uint32_t>& places,
                std::vector<ServerGroup>& groups) {
  std::map<uint32_t, const WorkerConfig*> processes;
  for (const WorkerConfig& worker : topology.worker()) processes[worker.global_id()] = &worker;
  // In turn, as they are dealt out.
  uint32_t worker = 0;
  bool is_dealing = true;
  for (uint32_t thread = 0; is_dealing; ++thread) {
    is_dealing = false;
    for (const auto& [id, process] : processes) {
      if (process->threads() <= thread) continue;
      groups[places.at(process->group_id())].add_worker(worker++);
      is_dealing = true;
    }
  }
}

}  // namespace

StatusOr<std::vector<ServerGroup>> GroupsOf(const Topology& topology) {
  std::vector<ServerGroup> groups;
  if (topology.server_group_size() <= 1) return groups;
  MILLRACE_RETURN_IF_ERROR(CheckThreads(topology));
  std::map<uint32_t, uint32_t> neighbors;  // of servers
  std::map<uint32_t, uint32_t> intervals;
  for (const ServerConfig& server : topology.server()) {
    if (!server.has_neighbor()) continue;
    neighbors[server.id()] = server.neighbor();
    intervals[server.id()] = server.sync_interval();
  }
  std::map<uint32_t, uint32_t> places;  // of groups, by id
  uint32_t next = 0;
  for (const ServerSet* group : InOrder(topology)) {
    const uint32_t first = next;
    for (const uint32_t server : group->neighbor()) {
      if (server != next++) return NotInOrder(*group);
    }
    places[group->id()] = static_cast<uint32_t>(groups.size());
    ServerGroup& made = groups.emplace_back();
    if (first == 0) {
      if (neighbors.contains(first)) return NotInOrder(*group);
      continue;
    }
    const auto neighbor = neighbors.find(first);
    if (neighbor == neighbors.end() || neighbor->second >= first) return NotInOrder(*group);
    made.set_neighbor(neighbor->second / static_cast<uint32_t>(group->neighbor_size()));
    made.set_sync_interval(intervals.at(first));
  }
  AddWorkers(topology, places, groups);
  return groups;
}

Status CheckSettingsOfGroups(const JobConfig& config) {
  const auto wrong = [](const std::string& flag, const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat(
        flag, " does not go together with a topology of several groups of servers: ", why,
        ". Leave ", flag, " out, or give one server_group"));
  };
  if (config.server().weights_from_workers()) {
    return wrong("--weights-from-workers", "workers do not know what has been exchanged");
  }
  if (config.server().has_from_snapshot()) {
    return wrong("--from-snapshot", "it has the model of one group");
  }
  if (config.answers().way() == Answers::DIRECT) {
    return wrong("--answers direct", "workers get the answers of their group from Kafka");
  }
  return CheckTrainsInGroups(config.training());
}

}  // namespace millrace
