// A job's topology: what it must be, and what follows from it. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "messages/job.pb.h"
#include "messages/topology.pb.h"

namespace millrace {

enum class TopologyKind {
  kWorkerServer,            // one group of servers
  kWorkerReplicatedServer,  // groups that exchange deltas
  kWorkerWorker,            // no servers
};

// What is wrong, and with which entry.
struct TopologyFault {
  std::string list;  // "server", "worker" or "server_group"; empty: with the whole
  int index = 0;     // in the list
  std::string text;  // a sentence that names the entry
};

// The first fault of a topology that cannot be; empty: it can.
std::optional<TopologyFault> FaultOf(const Topology& topology);

// REQUIRES of all others: FaultOf finds none.
TopologyKind KindOf(const Topology& topology);
uint32_t ShardsOf(const Topology& topology);     // of one group; without servers 1
uint32_t AllShardsOf(const Topology& topology);  // of all groups, which have equally many
uint32_t WorkersOf(const Topology& topology);    // logical ones, of all groups
// HOST:PORT.
std::string AddressOf(const ServerConfig& server);

// Sets what follows from config.topology(), if that is set: workers, shards and, without servers,
// the distribution strategy. InvalidArgument: the topology cannot be, the configuration says
// otherwise, and the message names both, or it is of several groups of servers that cannot train
// the job.
Status ApplyTopology(JobConfig& config);

// The server of the topology, if there is one, serves its replicas, if it has any, at its ip and
// port. REQUIRES: ApplyTopology has returned OK. InvalidArgument: there is no such server, or the
// address needs further settings.
Status ListenAsInTopology(uint32_t server, JobConfig& config);

// Whether `threads`, those of the processes 0, 1 .., are how MasterApp's plan deals out: evenly,
// and where that does not come out, one more to each of the first ones.
bool IsDealtOutEvenly(const std::vector<uint32_t>& threads);

}  // namespace millrace
