#include "apps/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "apps/topology_file.h"
#include "apps/topology_groups.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Line by line, so that errors have lines.
constexpr char kServers[] = R"(server { id: 0 ip: "127.0.0.1" port: 7101 threads: 2 }
server { id: 1 ip: "127.0.0.1" port: 7102 }
server_group { id: 5 neighbor: [0, 1] }
worker { global_id: 0 local_id: 0 group_id: 5 threads: 3 }
worker { global_id: 1 local_id: 1 group_id: 5 }
)";

// Group 8 is the primary of groups 7 and 9.
constexpr char kGroups[] = R"(server { id: 0 ip: "a" port: 1 threads: 2 }
server { id: 1 ip: "a" port: 2 }
server { id: 2 ip: "b" port: 1 neighbor: 0 sync_interval: 9 threads: 2 }
server { id: 3 ip: "b" port: 2 neighbor: 1 sync_interval: 9 }
server { id: 4 ip: "c" port: 1 neighbor: 0 sync_interval: 3 threads: 2 }
server { id: 5 ip: "c" port: 2 neighbor: 1 sync_interval: 3 }
server_group { id: 7 neighbor: [2, 3] }
server_group { id: 8 neighbor: [0, 1] }
server_group { id: 9 neighbor: [4, 5] }
worker { global_id: 0 local_id: 0 group_id: 7 }
worker { global_id: 1 local_id: 0 group_id: 8 }
worker { global_id: 2 local_id: 0 group_id: 9 threads: 4 }
)";

constexpr char kWorkersAlone[] = R"(worker { global_id: 1 local_id: 1 threads: 2 }
worker { global_id: 0 local_id: 0 }
)";

Topology Parsed(const std::string& text) {
  const StatusOr<Topology> topology = ParseTopology(text, "t");
  EXPECT_TRUE(topology.ok()) << topology.status().message();
  return topology.ok() ? *topology : Topology();
}

// The error of the text with `from` changed to `to`.
std::string ErrorOf(const std::string& text, const std::string& from, const std::string& to) {
  EXPECT_THAT(text, HasSubstr(from));
  const StatusOr<Topology> topology = ParseTopology(absl::StrReplaceAll(text, {{from, to}}), "t");
  EXPECT_FALSE(topology.ok()) << from << " -> " << to;
  EXPECT_TRUE(absl::IsInvalidArgument(topology.status()));
  return std::string(topology.status().message());
}

TEST(Topology, OfOneGroupOfServersHasItsShardsAndItsLogicalWorkers) {
  const Topology topology = Parsed(kServers);
  EXPECT_EQ(KindOf(topology), TopologyKind::kWorkerServer);
  EXPECT_EQ(ShardsOf(topology), 3U);
  EXPECT_EQ(WorkersOf(topology), 4U);
  EXPECT_EQ(AddressOf(topology.server(1)), "127.0.0.1:7102");
}

TEST(Topology, OfGroupsThatExchangeDeltasHasTheShardsOfOneAndTheWorkersOfAll) {
  const Topology topology = Parsed(kGroups);
  EXPECT_EQ(KindOf(topology), TopologyKind::kWorkerReplicatedServer);
  EXPECT_EQ(ShardsOf(topology), 3U);
  EXPECT_EQ(WorkersOf(topology), 6U);
}

TEST(Topology, WithoutServersIsOfWorkersInAnyOrder) {
  const Topology topology = Parsed(kWorkersAlone);
  EXPECT_EQ(KindOf(topology), TopologyKind::kWorkerWorker);
  EXPECT_EQ(ShardsOf(topology), 1U);
  EXPECT_EQ(WorkersOf(topology), 3U);
}

TEST(Topology, MayHaveAddressesOfIpv6) {
  ServerConfig server;
  server.set_port(7);
  server.set_ip("fe80::1");
  EXPECT_EQ(AddressOf(server), "[fe80::1]:7");
  server.set_ip("[::1]");
  EXPECT_EQ(AddressOf(server), "[::1]:7");
}

TEST(Topology, ThatIsNoTextFormatIsRefusedWithItsPlace) {
  EXPECT_THAT(ErrorOf(kServers, "id: 1 ip", "id 1 ip"), HasSubstr("t:2:13: "));
  EXPECT_THAT(ErrorOf(kServers, "port: 7102", "prot: 7102"), HasSubstr("t:2:"));
  EXPECT_THAT(ErrorOf(kServers, "id: 1 ip", "id: -1 ip"), HasSubstr("t:2:14: "));
  EXPECT_THAT(ErrorOf(kServers, "port: 7102", "port: 7102 neighbor: 0 neighbor: 1"),
              HasSubstr("t:2:"));
}

TEST(Topology, WithAServerThatCannotBeIsRefused) {
  const auto error = [](const std::string& from, const std::string& to) {
    return ErrorOf(kServers, from, to);
  };
  EXPECT_EQ(error("id: 1 ip", "id: 0 ip"),
            "t:2:1: server 0 is there twice: each server needs an id of its own");
  EXPECT_EQ(error("7102", "7101"),
            "t:2:1: server 1 has the ip and port of server 0, 127.0.0.1:7101: give each server its "
            "own");
  EXPECT_THAT(error("id: 1 ip", "ip"), HasSubstr("t:2:1: a server has no id"));
  EXPECT_THAT(error("id: 1 ip", "id: 2 ip"), HasSubstr("t:2:1: server 2: there is no server 1"));
  EXPECT_THAT(error("ip: \"127.0.0.1\" port: 7102", "port: 7102"),
              HasSubstr("t:2:1: server 1 has no ip"));
  EXPECT_THAT(error("ip: \"127.0.0.1\" port: 7102", "ip: \"a b\" port: 7102"),
              HasSubstr("t:2:1: server 1: its ip is neither"));
  EXPECT_THAT(error("ip: \"127.0.0.1\" port: 7102", "ip: \"0.0.0.0\" port: 7102"),
              HasSubstr("t:2:1: server 1: its ip is neither"));
  EXPECT_THAT(error("port: 7102", "port: 0"), HasSubstr("t:2:1: server 1 has no port of 1"));
  EXPECT_THAT(error("port: 7102", "port: 65536"), HasSubstr("t:2:1: server 1 has no port of 1"));
  EXPECT_THAT(error("port: 7102", "port: 7102 threads: 0"),
              HasSubstr("t:2:1: server 1 has threads 0: it would host no shard"));
  EXPECT_THAT(error("port: 7102", "port: 7102 threads: 999"),
              HasSubstr("t:1:1: the servers have 1001 threads together, and 1000"));
  EXPECT_THAT(error("port: 7102", "port: 7102 threads: 4294967295"), HasSubstr("together"));
}

TEST(Topology, WithAGroupThatCannotBeIsRefused) {
  const auto error = [](const std::string& from, const std::string& to) {
    return ErrorOf(kServers, from, to);
  };
  EXPECT_EQ(error("neighbor: [0, 1]", ""),
            "t:3:1: server_group 5 has no servers: list their ids (neighbor)");
  EXPECT_EQ(error("neighbor: [0, 1]", "neighbor: [0, 1, 2]"),
            "t:3:1: server_group 5 has server 2, and there is no such server");
  EXPECT_THAT(error("neighbor: [0, 1]", "neighbor: [0, 1, 0]"),
              HasSubstr("t:3:1: server_group 5 has server 0, which is listed in server_group 5"));
  EXPECT_THAT(error("neighbor: [0, 1]", "neighbor: 0"),
              HasSubstr("t:2:1: server 1 is in no server_group"));
  EXPECT_THAT(error("server_group { id: 5", "server_group {"), HasSubstr("t:3:1: a server_group"));
  EXPECT_THAT(ErrorOf(kGroups, "id: 9 neighbor", "id: 7 neighbor"),
              HasSubstr("t:9:1: server_group 7 is there twice"));
  EXPECT_THAT(ErrorOf(kGroups, "group_id: 9", "group_id: 7 "),
              HasSubstr("t:12:1: worker 2 has local_id 0 of group 7"));
  EXPECT_THAT(ErrorOf(kGroups, "local_id: 0 group_id: 9", "local_id: 1 group_id: 7"),
              HasSubstr("t:9:1: server_group 9 has no workers"));
}

TEST(Topology, WithAWorkerThatCannotBeIsRefused) {
  const auto error = [](const std::string& from, const std::string& to) {
    return ErrorOf(kServers, from, to);
  };
  EXPECT_EQ(error("local_id: 1 group_id: 5", "local_id: 1 group_id: 6"),
            "t:5:1: worker 1 has group_id 6, and there is no such server_group");
  EXPECT_EQ(error("global_id: 1", "global_id: 3"),
            "t:5:1: worker 3: there is no worker 1; global_id is a number from 0, without gaps");
  EXPECT_THAT(error("global_id: 1", "global_id: 0"), HasSubstr("t:5:1: worker 0 is there twice"));
  EXPECT_THAT(error("global_id: 1", ""), HasSubstr("t:5:1: a worker has no global_id"));
  EXPECT_THAT(error("local_id: 1", ""), HasSubstr("t:5:1: worker 1 has no local_id"));
  EXPECT_THAT(error("local_id: 1", "local_id: 2"),
              HasSubstr("t:5:1: worker 1 has local_id 2, and no worker of group 5 has 1"));
  EXPECT_THAT(error("local_id: 1 group_id: 5", "local_id: 1"),
              HasSubstr("t:5:1: worker 1 has no group_id"));
  EXPECT_THAT(error("threads: 3", "threads: 0"),
              HasSubstr("t:4:1: worker 0 has threads 0: it would host no logical worker"));
  EXPECT_THAT(error("threads: 3", "threads: 10000"),
              HasSubstr("t:4:1: the workers have 10001 threads together"));
  EXPECT_THAT(ErrorOf(kWorkersAlone, "local_id: 0", "local_id: 0 group_id: 1"),
              HasSubstr("t:2:1: worker 0 has group_id 1 and another has 0"));
  EXPECT_EQ(ErrorOf("server { }", "server { }", ""),
            "t:1:1: there is no worker: a topology needs one or more");
}

TEST(Topology, WithNeighborsThatCannotBeIsRefused) {
  const auto error = [](const std::string& from, const std::string& to) {
    return ErrorOf(kGroups, from, to);
  };
  const std::string two = "port: 1 neighbor: 0 sync_interval: 9";
  EXPECT_EQ(error(two, "port: 1 neighbor: 6 sync_interval: 9"),
            "t:3:1: server 2 has the neighbor 6, and there is no such server");
  EXPECT_EQ(error(two, "port: 1 neighbor: 0 sync_interval: 0"),
            "t:3:1: server 2 has the neighbor 0 and no sync_interval: give 1 update or more");
  EXPECT_THAT(error(two, "port: 1 sync_interval: 9"),
              HasSubstr("t:3:1: server 2 has a sync_interval and no neighbor"));
  EXPECT_THAT(error(two, "port: 1 neighbor: 2 sync_interval: 9"),
              HasSubstr("t:3:1: server 2 is its own neighbor"));
  EXPECT_THAT(error("ip: \"a\" port: 2", "ip: \"a\" port: 2 neighbor: 3 sync_interval: 9"),
              HasSubstr("the servers 1 -> 3 -> 1 are neighbors in a circle"));
  EXPECT_THAT(error(two, "port: 1"), HasSubstr("one of the servers 2 and 3 has a neighbor"));
  EXPECT_THAT(error("neighbor: [2, 3]", "neighbor: [3, 2]"),
              HasSubstr("must be neighbors one by one"));
  EXPECT_THAT(error("neighbor: 1 sync_interval: 9", "neighbor: 1 sync_interval: 8"),
              HasSubstr("t:4:1: server 3 has another sync_interval than server 2"));
  EXPECT_THAT(error("ip: \"a\" port: 2", "ip: \"a\" port: 2 threads: 2"),
              HasSubstr("server 3 has 1 threads and its neighbor 1 has 2"));
  EXPECT_THAT(error(" neighbor: 0 sync_interval: 9 threads: 2", " threads: 2") +
                  ErrorOf(absl::StrReplaceAll(kGroups, {{" neighbor: 0 sync_interval: 9", ""}}),
                          " neighbor: 1 sync_interval: 9", ""),
              HasSubstr("the groups 7 and 8 have no neighbor, so they would learn two models"));
}

// ---- what follows from it ----

JobConfig With(const std::string& text) {
  JobConfig config;
  *config.mutable_topology() = Parsed(text);
  return config;
}

TEST(Topology, SetsTheShardsAndWorkersOfAJob) {
  JobConfig config = With(kServers);
  ASSERT_TRUE(ApplyTopology(config).ok());
  EXPECT_EQ(config.shards(), 3U);
  EXPECT_EQ(config.workers(), 4U);
  EXPECT_FALSE(config.training().has_distribution_strategy());
  EXPECT_TRUE(ApplyTopology(config).ok()) << "a program reads what another has applied";
}

TEST(Topology, WithoutServersTrainsByAllReduce) {
  JobConfig config = With(kWorkersAlone);
  ASSERT_TRUE(ApplyTopology(config).ok());
  EXPECT_EQ(config.shards(), 1U);
  EXPECT_EQ(config.workers(), 3U);
  EXPECT_EQ(config.training().distribution_strategy(), Training::ALL_REDUCE);
  EXPECT_TRUE(ApplyTopology(config).ok());
}

TEST(Topology, ThatSettingsContradictIsRefusedAndBothAreNamed) {
  const auto error = [](JobConfig config) {
    const Status status = ApplyTopology(config);
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  JobConfig config = With(kServers);
  config.set_shards(2);
  EXPECT_EQ(
      error(config),
      "--shards 2 contradicts the topology (--topology): its servers have 3 threads, and each "
      "is a shard. Leave --shards out, or change the topology");
  config = With(kServers);
  config.set_workers(2);
  EXPECT_THAT(error(config), HasSubstr("--workers 2 contradicts the topology (--topology): its "
                                       "workers have 4 threads, and each is a logical worker"));
  config = With(kServers);
  config.mutable_server()->set_replica_listen("127.0.0.1:0");
  EXPECT_THAT(error(config), HasSubstr("--replica-listen contradicts the topology"));
  config = With(kServers);
  config.mutable_training()->set_distribution_strategy(Training::ALL_REDUCE);
  EXPECT_THAT(error(config), HasSubstr("AllReduce contradicts the topology (--topology): it has "
                                       "servers. Leave --distribution-strategy out"));
  config = With(kWorkersAlone);
  config.mutable_training()->set_distribution_strategy(Training::PARAMETER_SERVER);
  EXPECT_THAT(error(config), HasSubstr("it has no servers"));
  config = With(kWorkersAlone);
  config.set_shards(2);
  EXPECT_THAT(error(config), HasSubstr("it has no servers, so each worker process"));
}

// Two groups of two servers, which exchange by pairs; five logical workers on three processes.
constexpr char kPairs[] = R"(server { id: 2 ip: "b" port: 1 neighbor: 0 sync_interval: 9 }
server { id: 3 ip: "b" port: 2 neighbor: 1 sync_interval: 9 }
server { id: 0 ip: "a" port: 1 }
server { id: 1 ip: "a" port: 2 }
server_group { id: 7 neighbor: [2, 3] }
server_group { id: 8 neighbor: [0, 1] }
worker { global_id: 0 local_id: 0 group_id: 7 threads: 2 }
worker { global_id: 1 local_id: 0 group_id: 8 threads: 2 }
worker { global_id: 2 local_id: 1 group_id: 7 }
)";

TEST(Topology, OfGroupsSaysWhichShardsAndWorkersAreWhose) {
  const StatusOr<std::vector<ServerGroup>> groups = GroupsOf(Parsed(kPairs));
  ASSERT_TRUE(groups.ok()) << groups.status();
  ASSERT_EQ(groups->size(), 2U);
  EXPECT_EQ((*groups)[0].sync_interval(), 0U);
  EXPECT_THAT((*groups)[0].worker(), ElementsAre(1, 4)) << "in turn: processes 0, 1, 2, 0, 1";
  EXPECT_EQ((*groups)[1].neighbor(), 0U);
  EXPECT_EQ((*groups)[1].sync_interval(), 9U);
  EXPECT_THAT((*groups)[1].worker(), ElementsAre(0, 2, 3));
  EXPECT_THAT(*GroupsOf(Parsed(kServers)), IsEmpty());
  EXPECT_THAT(*GroupsOf(Parsed(kWorkersAlone)), IsEmpty());
  JobConfig config = With(kPairs);
  ASSERT_TRUE(ApplyTopology(config).ok());
  EXPECT_EQ(config.shards(), 4U);
  EXPECT_EQ(config.workers(), 5U);
  EXPECT_TRUE(ApplyTopology(config).ok()) << "once more, by the process that it is given to";
}

TEST(Topology, OfGroupsHasServersOfOneShardInTheOrderOfTheGroups) {
  EXPECT_THAT(std::string(GroupsOf(Parsed(kGroups)).status().message()),
              HasSubstr("server 0 has 2 threads"));
  // Group 7 becomes the primary, and begins with server 2.
  Topology other = Parsed(kPairs);
  for (ServerConfig& server : *other.mutable_server()) {
    server.clear_neighbor();
    server.clear_sync_interval();
    if (server.id() >= 2) continue;
    server.set_neighbor(server.id() + 2);
    server.set_sync_interval(5);
  }
  ASSERT_FALSE(FaultOf(other).has_value());
  EXPECT_THAT(std::string(GroupsOf(other).status().message()),
              HasSubstr("number the servers group by group"));
}

TEST(Topology, OfGroupsThatCannotTrainTheJobIsRefused) {
  const auto error = [](auto change) {
    JobConfig config = With(kPairs);
    change(config);
    return std::string(ApplyTopology(config).message());
  };
  EXPECT_THAT(error([](JobConfig& c) {
                c.mutable_training()->mutable_optimizer()->set_kind(Training::Optimizer::FTRL);
              }),
              HasSubstr("--optimizer ftrl"));
  EXPECT_THAT(error([](JobConfig& c) { c.mutable_server()->set_weights_from_workers(true); }),
              HasSubstr("--weights-from-workers does not go together with"));
  EXPECT_THAT(error([](JobConfig& c) { c.mutable_server()->set_from_snapshot("x"); }),
              HasSubstr("--from-snapshot does not go together with"));
  EXPECT_THAT(error([](JobConfig& c) { c.mutable_answers()->set_way(Answers::DIRECT); }),
              HasSubstr("--answers direct does not go together with"));
}

TEST(Topology, ThatCannotBeIsRefusedInAJobFileToo) {
  JobConfig config;
  config.mutable_topology()->add_worker();
  EXPECT_EQ(ApplyTopology(config).message(),
            "topology: a worker has no global_id: give each one, from 0");
}

TEST(Topology, SaysWhereAServerServesItsReplicas) {
  JobConfig config = With(kServers);
  ASSERT_TRUE(ApplyTopology(config).ok());
  JobConfig without = config;
  EXPECT_TRUE(ListenAsInTopology(1, without).ok());
  EXPECT_FALSE(without.server().has_replica_listen()) << "it has none to serve";
  config.mutable_server()->set_replicas(1);
  ASSERT_TRUE(ListenAsInTopology(1, config).ok());
  EXPECT_EQ(config.server().replica_listen(), "127.0.0.1:7102");
  EXPECT_TRUE(absl::IsInvalidArgument(ListenAsInTopology(2, config)));
  config.mutable_topology()->mutable_server(0)->set_ip("10.0.0.1");
  EXPECT_THAT(std::string(ListenAsInTopology(0, config).message()), HasSubstr("other machines"));
}

TEST(Topology, HasTheThreadsThatThePlanDealsOut) {
  EXPECT_TRUE(IsDealtOutEvenly({}));
  EXPECT_TRUE(IsDealtOutEvenly({2, 2, 1}));
  EXPECT_FALSE(IsDealtOutEvenly({1, 2}));
  EXPECT_FALSE(IsDealtOutEvenly({3, 2, 1}));
}

// ---- files ----

TEST(TopologyFile, IsReadWithItsNameInErrors) {
  const std::string folder = MILLRACE_TOPOLOGY_EXAMPLES;
  const auto kind = [&](const char* name) {
    const StatusOr<Topology> topology = ReadTopology(folder + "/" + name + ".textproto");
    EXPECT_TRUE(topology.ok()) << topology.status().message();
    return topology.ok() ? std::optional(KindOf(*topology)) : std::nullopt;
  };
  EXPECT_EQ(kind("worker-server"), TopologyKind::kWorkerServer);
  EXPECT_EQ(kind("worker-worker"), TopologyKind::kWorkerWorker);
  EXPECT_EQ(kind("worker-replicated-server"), TopologyKind::kWorkerReplicatedServer);
  const StatusOr<Topology> none = ReadTopology(folder + "/none.textproto");
  EXPECT_TRUE(absl::IsNotFound(none.status()));
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("none.textproto: "));
}

}  // namespace
}  // namespace millrace
