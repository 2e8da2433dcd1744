// Topologies of any text, and mutated ones: read or refused, with the place of the error; what can
// be has sizes that a job can have.
#include <google/protobuf/text_format.h>

#include "apps/topology.h"
#include "apps/topology_file.h"
#include "apps/topology_groups.h"
#include "base/check.h"
#include "tests/fuzz/mutate_message.h"
#include "tests/fuzz/target.h"
#include "topics/server_groups.h"
#include "topics/topics.h"

namespace millrace::fuzz {
namespace {

void CheckUsable(const Topology& topology) {
  MILLRACE_CHECK(ShardsOf(topology) >= 1 && ShardsOf(topology) <= kMostShards);
  MILLRACE_CHECK(WorkersOf(topology) >= 1 && WorkersOf(topology) <= kMostWorkers);
  JobConfig config;
  *config.mutable_topology() = topology;
  const Status applied = ApplyTopology(config);
  const bool is_grouped = KindOf(topology) == TopologyKind::kWorkerReplicatedServer;
  MILLRACE_CHECK(applied.ok() || is_grouped);
  if (!applied.ok()) return;
  JobTraining training;
  training.set_shards(config.shards());
  const StatusOr<std::vector<ServerGroup>> groups = GroupsOf(topology);
  MILLRACE_CHECK(groups.ok());
  for (const ServerGroup& group : *groups) *training.add_group() = group;
  MILLRACE_CHECK(is_grouped == (training.group_size() > 1));
  MILLRACE_CHECK(CheckGroups(training, config.workers()).ok() || config.shards() > kMostShards);
  const std::string once = config.SerializeAsString();
  MILLRACE_CHECK(ApplyTopology(config).ok() && config.SerializeAsString() == once);
}

// Two groups, of which one has the other for a neighbour.
Topology TwoGroups() {
  const StatusOr<Topology> topology = ParseTopology(
      R"(server { id: 0 ip: "a" port: 1 } server { id: 1 ip: "a" port: 2 neighbor: 0 sync_interval: 1 }
         server_group { id: 0 neighbor: 0 } server_group { id: 1 neighbor: 1 }
         worker { global_id: 0 local_id: 0 group_id: 0 }
         worker { global_id: 1 local_id: 0 group_id: 1 })",
      "two groups");
  MILLRACE_CHECK(topology.ok());
  return *topology;
}

void CheckText(const std::string& text) {
  const StatusOr<Topology> topology = ParseTopology(text, "FILE");
  if (topology.ok()) return CheckUsable(*topology);
  MILLRACE_CHECK(std::string(topology.status().message()).starts_with("FILE:"));
}

}  // namespace

void FuzzOne(ByteSource& bytes) {
  if (!bytes.Chance(128)) return CheckText(std::string(bytes.Rest()));
  Topology topology = TwoGroups();
  while (!bytes.empty()) Mutate(topology, bytes);
  if (!FaultOf(topology)) CheckUsable(topology);
  std::string text;
  MILLRACE_CHECK(google::protobuf::TextFormat::PrintToString(topology, &text));
  const StatusOr<Topology> again = ParseTopology(text, "FILE");
  MILLRACE_CHECK(again.ok() == !FaultOf(topology));
}

}  // namespace millrace::fuzz
