#include "apps/topology.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/config_checks.h"
#include "apps/topology_groups.h"
#include "base/host_and_port.h"
#include "topics/process_name.h"
#include "topics/topics.h"

namespace millrace {
namespace {

constexpr uint32_t kMostPort = 65535;

using Fault = std::optional<TopologyFault>;

std::string ServerText(uint32_t id) { return absl::StrCat("server ", id); }
std::string WorkerText(uint32_t id) { return absl::StrCat("worker ", id); }
std::string GroupText(uint32_t id) { return absl::StrCat("server_group ", id); }

// A topology with what is looked up in it. REQUIRES of each check: those before have found nothing.
class TopologyCheck {
 public:
  explicit TopologyCheck(const Topology& topology) : topology_(topology) {}

  Fault Run() {
    for (const auto check :
         {&TopologyCheck::CheckSizes, &TopologyCheck::CheckServers, &TopologyCheck::CheckGroups,
          &TopologyCheck::CheckWorkers, &TopologyCheck::CheckNeighbors, &TopologyCheck::CheckCycles,
          &TopologyCheck::CheckExchanges}) {
      if (Fault fault = (this->*check)()) return fault;
    }
    return std::nullopt;
  }

 private:
  static Fault OfServer(int index, std::string text) {
    return TopologyFault{"server", index, std::move(text)};
  }
  static Fault OfWorker(int index, std::string text) {
    return TopologyFault{"worker", index, std::move(text)};
  }
  static Fault OfGroup(int index, std::string text) {
    return TopologyFault{"server_group", index, std::move(text)};
  }

  Fault CheckSizes() {
    if (topology_.worker().empty()) {
      return TopologyFault{"", 0, "there is no worker: a topology needs one or more"};
    }
    for (const auto& [list, count] : {std::pair("server", topology_.server_size()),
                                      std::pair("worker", topology_.worker_size()),
                                      std::pair("server_group", topology_.server_group_size())}) {
      if (count <= static_cast<int>(kMostProcesses)) continue;
      return TopologyFault{list, static_cast<int>(kMostProcesses),
                           absl::StrCat("there are ", count, " entries ", list, ", and ",
                                        kMostProcesses, " are the most")};
    }
    return std::nullopt;
  }

  // ---- servers ----

  Fault CheckServers() {
    std::map<std::string, uint32_t> addresses;
    uint64_t threads = 0;
    for (int i = 0; i < topology_.server_size(); ++i) {
      const ServerConfig& server = topology_.server(i);
      if (!server.has_id()) return OfServer(i, "a server has no id: give each one, from 0");
      const std::string name = ServerText(server.id());
      if (!servers_.emplace(server.id(), i).second) {
        return OfServer(i, name + " is there twice: each server needs an id of its own");
      }
      if (Fault fault = CheckServer(i, server)) return fault;
      const auto [other, is_new] = addresses.emplace(AddressOf(server), server.id());
      if (!is_new) {
        return OfServer(i, absl::StrCat(name, " has the ip and port of server ", other->second,
                                        ", ", other->first, ": give each server its own"));
      }
      threads += server.threads();
    }
    if (threads > kMostShards) {
      return OfServer(0, absl::StrCat("the servers have ", threads, " threads together, and ",
                                      kMostShards, " shards are the most"));
    }
    return CheckGapsOf("server", "id", servers_);
  }

  Fault CheckServer(int index, const ServerConfig& server) const {
    const std::string name = ServerText(server.id());
    if (server.ip().empty()) {
      return OfServer(index, name + " has no ip: give the address where the others reach it");
    }
    if (server.port() < 1 || server.port() > kMostPort) {
      return OfServer(index, absl::StrCat(name, " has no port of 1 to ", kMostPort,
                                          ": the others could not reach it"));
    }
    const bool has_space = std::ranges::any_of(
        server.ip(), [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == '/'; });
    const bool is_any = server.ip() == "0.0.0.0" || server.ip() == "::" || server.ip() == "[::]";
    if (has_space || is_any || !IsHostAndPort(AddressOf(server))) {
      return OfServer(index,
                      name + ": its ip is neither an address of a machine nor a name of one");
    }
    if (server.threads() >= 1) return std::nullopt;
    return OfServer(index, name + " has threads 0: it would host no shard; give 1 or more");
  }

  // `ids`: of all entries of the list, by their places.
  static Fault CheckGapsOf(const char* list, const char* id, const std::map<uint32_t, int>& ids) {
    uint32_t next = 0;
    for (const auto& [number, index] : ids) {
      if (number == next++) continue;
      return TopologyFault{list, index,
                           absl::StrCat(list, " ", number, ": there is no ", list, " ", next - 1,
                                        "; ", id, " is a number from 0, without gaps")};
    }
    return std::nullopt;
  }

  // ---- groups ----

  Fault CheckGroups() {
    for (int i = 0; i < topology_.server_group_size(); ++i) {
      const ServerSet& group = topology_.server_group(i);
      if (!group.has_id()) return OfGroup(i, "a server_group has no id: give each one");
      const std::string name = GroupText(group.id());
      if (!groups_.emplace(group.id(), i).second) {
        return OfGroup(i, name + " is there twice: each server_group needs an id of its own");
      }
      if (group.neighbor().empty()) {
        return OfGroup(i, name + " has no servers: list their ids (neighbor)");
      }
      for (const uint32_t id : group.neighbor()) {
        if (!servers_.contains(id)) {
          return OfGroup(i,
                         absl::StrCat(name, " has server ", id, ", and there is no such server"));
        }
        if (group_of_.emplace(id, group.id()).second) continue;
        return OfGroup(i,
                       absl::StrCat(name, " has server ", id, ", which is listed in server_group ",
                                    group_of_.at(id), ": a server is in one group, once"));
      }
    }
    for (int i = 0; i < topology_.server_size(); ++i) {
      const uint32_t id = topology_.server(i).id();
      if (group_of_.contains(id)) continue;
      return OfServer(i, ServerText(id) + " is in no server_group: list it in one (neighbor)");
    }
    return std::nullopt;
  }

  // ---- workers ----

  Fault CheckWorkers() {
    std::map<uint32_t, int> workers;                     // by global_id
    std::map<uint32_t, std::map<uint32_t, int>> locals;  // by group_id and local_id
    uint64_t threads = 0;
    for (int i = 0; i < topology_.worker_size(); ++i) {
      const WorkerConfig& worker = topology_.worker(i);
      if (!worker.has_global_id()) {
        return OfWorker(i, "a worker has no global_id: give each one, from 0");
      }
      const std::string name = WorkerText(worker.global_id());
      if (!workers.emplace(worker.global_id(), i).second) {
        return OfWorker(i, name + " is there twice: each worker needs a global_id of its own");
      }
      if (Fault fault = CheckGroupOf(i, worker)) return fault;
      if (!locals[worker.group_id()].emplace(worker.local_id(), i).second) {
        return OfWorker(i, absl::StrCat(name, " has local_id ", worker.local_id(), " of group ",
                                        worker.group_id(), ", as another worker does"));
      }
      if (worker.threads() < 1) {
        return OfWorker(i,
                        name + " has threads 0: it would host no logical worker; give 1 or more");
      }
      threads += worker.threads();
    }
    if (threads > kMostWorkers) {
      return OfWorker(0, absl::StrCat("the workers have ", threads, " threads together, and ",
                                      kMostWorkers, " logical workers are the most"));
    }
    if (Fault fault = CheckGapsOf("worker", "global_id", workers)) return fault;
    return CheckLocals(locals);
  }

  Fault CheckGroupOf(int index, const WorkerConfig& worker) const {
    const std::string name = WorkerText(worker.global_id());
    if (!worker.has_local_id()) {
      return OfWorker(index, name + " has no local_id: give its number within its group, from 0");
    }
    if (topology_.server().empty()) {
      const uint32_t first = topology_.worker(0).group_id();
      if (worker.group_id() == first) return std::nullopt;
      return OfWorker(
          index, absl::StrCat(name, " has group_id ", worker.group_id(), " and another has ", first,
                              ": without servers all workers are one group"));
    }
    if (!worker.has_group_id()) {
      return OfWorker(index, name + " has no group_id: give the id of its server_group");
    }
    if (groups_.contains(worker.group_id())) return std::nullopt;
    return OfWorker(index, absl::StrCat(name, " has group_id ", worker.group_id(),
                                        ", and there is no such server_group"));
  }

  Fault CheckLocals(const std::map<uint32_t, std::map<uint32_t, int>>& locals) const {
    for (const auto& [group, ids] : locals) {
      uint32_t next = 0;
      for (const auto& [local, index] : ids) {
        if (local == next++) continue;
        return OfWorker(
            index, absl::StrCat(WorkerText(topology_.worker(index).global_id()), " has local_id ",
                                local, ", and no worker of group ", group, " has ", next - 1,
                                "; local_id is a number from 0, without gaps"));
      }
    }
    for (const auto& [group, index] : groups_) {
      if (locals.contains(group)) continue;
      return OfGroup(index, GroupText(group) + " has no workers: nobody would send it an update");
    }
    return std::nullopt;
  }

  // ---- neighbours ----

  Fault CheckNeighbors() {
    for (int i = 0; i < topology_.server_size(); ++i) {
      const ServerConfig& server = topology_.server(i);
      const std::string name = ServerText(server.id());
      if (!server.has_neighbor()) {
        if (server.sync_interval() == 0) continue;
        return OfServer(i, name + " has a sync_interval and no neighbor to exchange deltas with");
      }
      if (!servers_.contains(server.neighbor())) {
        return OfServer(i, absl::StrCat(name, " has the neighbor ", server.neighbor(),
                                        ", and there is no such server"));
      }
      if (server.neighbor() == server.id()) {
        return OfServer(i, name + " is its own neighbor: name a server of another group");
      }
      if (server.sync_interval() == 0) {
        return OfServer(i, absl::StrCat(name, " has the neighbor ", server.neighbor(),
                                        " and no sync_interval: give 1 update or more"));
      }
    }
    return std::nullopt;
  }

  const ServerConfig& Server(uint32_t id) const { return topology_.server(servers_.at(id)); }

  Fault CheckCycles() {
    std::set<uint32_t> ends_well;  // whoever begins there comes to a server without a neighbour
    for (int i = 0; i < topology_.server_size(); ++i) {
      std::vector<uint32_t> way;
      uint32_t id = topology_.server(i).id();
      while (!ends_well.contains(id)) {
        if (const auto again = std::ranges::find(way, id); again != way.end()) {
          std::string text;
          for (auto at = again; at != way.end(); ++at) absl::StrAppend(&text, *at, " -> ");
          return OfServer(servers_.at(id),
                          absl::StrCat("the servers ", text, id,
                                       " are neighbors in a circle: a delta would come back to who "
                                       "sent it. Leave out the neighbor of one group"));
        }
        way.push_back(id);
        if (!Server(id).has_neighbor()) break;
        id = Server(id).neighbor();
      }
      ends_well.insert(way.begin(), way.end());
    }
    return std::nullopt;
  }

  // Groups exchange all of their parameters, so server by server.
  Fault CheckExchanges() {
    std::vector<uint32_t> primaries;
    for (int i = 0; i < topology_.server_group_size(); ++i) {
      const ServerSet& group = topology_.server_group(i);
      const ServerConfig& first = Server(group.neighbor(0));
      for (const uint32_t id : group.neighbor()) {
        if (Server(id).has_neighbor() == first.has_neighbor()) continue;
        return OfServer(servers_.at(id),
                        absl::StrCat("of ", GroupText(group.id()), ", one of the servers ",
                                     first.id(), " and ", id,
                                     " has a neighbor and the other has none: a group "
                                     "exchanges all of its parameters, or none"));
      }
      if (!first.has_neighbor()) {
        primaries.push_back(group.id());
      } else if (Fault fault = CheckExchange(group)) {
        return fault;
      }
    }
    if (primaries.size() < 2) return std::nullopt;
    return OfGroup(
        groups_.at(primaries[1]),
        absl::StrCat("the groups ", primaries[0], " and ", primaries[1],
                     " have no neighbor, so they would learn two models: give the servers "
                     "of one a neighbor in another group, or start two jobs"));
  }

  // The servers of the group, in their order, with those of the other.
  Fault CheckExchange(const ServerSet& group) const {
    const uint32_t other_id = group_of_.at(Server(group.neighbor(0)).neighbor());
    const ServerSet& other = topology_.server_group(groups_.at(other_id));
    const uint32_t interval = Server(group.neighbor(0)).sync_interval();
    for (int i = 0; i < group.neighbor_size(); ++i) {
      const ServerConfig& server = Server(group.neighbor(i));
      const int index = servers_.at(server.id());
      const std::string name = ServerText(server.id());
      if (i >= other.neighbor_size() || group.neighbor_size() != other.neighbor_size() ||
          server.neighbor() != other.neighbor(i)) {
        return OfServer(
            index, absl::StrCat(name, " has the neighbor ", server.neighbor(), ": the servers of ",
                                GroupText(group.id()), " and those of ", GroupText(other_id),
                                " must be neighbors one by one, in the order of their groups"));
      }
      if (server.threads() != Server(server.neighbor()).threads()) {
        return OfServer(
            index, absl::StrCat(name, " has ", server.threads(), " threads and its neighbor ",
                                server.neighbor(), " has ", Server(server.neighbor()).threads(),
                                ": they have the same shards, so give both as many"));
      }
      if (server.sync_interval() == interval) continue;
      return OfServer(index, absl::StrCat(name, " has another sync_interval than server ",
                                          group.neighbor(0), " of its group: give both the same"));
    }
    return std::nullopt;
  }

  const Topology& topology_;
  std::map<uint32_t, int> servers_;        // places, by id
  std::map<uint32_t, int> groups_;         // places, by id
  std::map<uint32_t, uint32_t> group_of_;  // ids of groups, by ids of servers
};

Status Contradiction(const std::string& given, const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat(given, " contradicts the topology (--topology): ", what, ". Leave ",
                   given.substr(0, given.find(' ')), " out, or change the topology"));
}

Status CheckAgainst(const JobConfig& config, TopologyKind kind) {
  const Topology& topology = config.topology();
  const uint32_t shards = AllShardsOf(topology);
  if (config.has_shards() && config.shards() != shards) {
    return Contradiction(
        absl::StrCat("--shards ", config.shards()),
        kind == TopologyKind::kWorkerWorker
            ? "it has no servers, so each worker process has all weights"
            : absl::StrCat("its servers have ", shards, " threads, and each is a shard"));
  }
  const uint32_t workers = WorkersOf(topology);
  if (config.has_workers() && config.workers() != workers) {
    return Contradiction(
        absl::StrCat("--workers ", config.workers()),
        absl::StrCat("its workers have ", workers, " threads, and each is a logical worker"));
  }
  if (config.server().has_replica_listen() || config.server().has_replica_advertise()) {
    return Contradiction(
        config.server().has_replica_listen() ? "--replica-listen" : "--replica-advertise",
        "the ip and port of its servers say where replicas are served");
  }
  const Training& training = config.training();
  const bool by_all_reduce = training.distribution_strategy() == Training::ALL_REDUCE;
  if (training.has_distribution_strategy() &&
      by_all_reduce != (kind == TopologyKind::kWorkerWorker)) {
    return Contradiction(by_all_reduce ? "--distribution-strategy AllReduce"
                                       : "--distribution-strategy ParameterServer",
                         by_all_reduce ? "it has servers" : "it has no servers");
  }
  return absl::OkStatus();
}

}  // namespace

std::optional<TopologyFault> FaultOf(const Topology& topology) {
  return TopologyCheck(topology).Run();
}

TopologyKind KindOf(const Topology& topology) {
  if (topology.server().empty()) return TopologyKind::kWorkerWorker;
  return topology.server_group_size() == 1 ? TopologyKind::kWorkerServer
                                           : TopologyKind::kWorkerReplicatedServer;
}

uint32_t ShardsOf(const Topology& topology) {
  if (topology.server().empty()) return 1;
  const ServerSet& group = topology.server_group(0);
  uint32_t shards = 0;
  for (const ServerConfig& server : topology.server()) {
    if (std::ranges::count(group.neighbor(), server.id()) > 0) shards += server.threads();
  }
  return shards;
}

uint32_t AllShardsOf(const Topology& topology) {
  return ShardsOf(topology) * std::max(static_cast<uint32_t>(topology.server_group_size()), 1U);
}

uint32_t WorkersOf(const Topology& topology) {
  uint32_t workers = 0;
  for (const WorkerConfig& worker : topology.worker()) workers += worker.threads();
  return workers;
}

std::string AddressOf(const ServerConfig& server) {
  const bool is_ipv6 = server.ip().find(':') != std::string::npos && !server.ip().starts_with('[');
  return is_ipv6 ? absl::StrCat("[", server.ip(), "]:", server.port())
                 : absl::StrCat(server.ip(), ":", server.port());
}

Status ApplyTopology(JobConfig& config) {
  if (!config.has_topology()) return absl::OkStatus();
  if (const auto fault = FaultOf(config.topology())) {
    return absl::InvalidArgumentError("topology: " + fault->text);
  }
  const TopologyKind kind = KindOf(config.topology());
  MILLRACE_RETURN_IF_ERROR(CheckAgainst(config, kind));
  if (kind == TopologyKind::kWorkerReplicatedServer) {
    MILLRACE_RETURN_IF_ERROR(GroupsOf(config.topology()).status());
    MILLRACE_RETURN_IF_ERROR(CheckSettingsOfGroups(config));
  }
  config.set_shards(AllShardsOf(config.topology()));
  config.set_workers(WorkersOf(config.topology()));
  if (kind == TopologyKind::kWorkerWorker) {
    config.mutable_training()->set_distribution_strategy(Training::ALL_REDUCE);
  }
  return absl::OkStatus();
}

Status ListenAsInTopology(uint32_t server, JobConfig& config) {
  if (!config.has_topology() || config.server().replicas() == 0) return absl::OkStatus();
  for (const ServerConfig& each : config.topology().server()) {
    if (each.id() != server) continue;
    config.mutable_server()->set_replica_listen(AddressOf(each));
    return ValidateConfig(config);
  }
  return absl::InvalidArgumentError(absl::StrCat("the topology has no server ", server));
}

bool IsDealtOutEvenly(const std::vector<uint32_t>& threads) {
  return std::ranges::is_sorted(threads, std::greater<>()) &&
         (threads.empty() || threads.front() <= threads.back() + 1);
}

}  // namespace millrace
