// When nodes that wait for each other are released, and what they are told.
#include "processors/barriers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/processors/node_fixture.h"

namespace millrace {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kWaits[] = "it waits";

TestedNodes ThreeNodes() {
  TestedNodes nodes;
  for (const char* instance : {"a", "b", "c"}) nodes.Join(instance);
  return nodes;
}

TEST(Barriers, AreReleasedWhenAllLivingNodesHaveArrived) {
  TestedNodes nodes = ThreeNodes();
  EXPECT_EQ(nodes.Arrive(NodeArrive("b", 1)), kWaits);
  EXPECT_EQ(nodes.Arrive(NodeArrive("a", 1)), kWaits);
  EXPECT_EQ(nodes.Arrive(NodeArrive("b", 1)), kWaits) << "said again";
  EXPECT_EQ(nodes.Arrive(NodeArrive("c", 1)), "worker-0 worker-1 worker-2");
  EXPECT_EQ(nodes.Arrive(NodeArrive("a", 1)), "worker-0 worker-1 worker-2");
}

TEST(Barriers, WaitForWhoJoinsWhileOthersWait) {
  TestedNodes nodes = ThreeNodes();
  nodes.Do(NodeArrive("a", 1));
  nodes.Do(NodeArrive("b", 1));
  nodes.Join("d");
  EXPECT_EQ(nodes.Arrive(NodeArrive("c", 1)), kWaits);
  EXPECT_EQ(nodes.Arrive(NodeArrive("d", 1)), "worker-0 worker-1 worker-2 worker-3");
}

TEST(Barriers, AreReleasedByADeathWhichTheyName) {
  TestedNodes nodes = ThreeNodes();
  nodes.Ticks(4);
  nodes.Do(NodeArrive("a", 1));
  EXPECT_EQ(nodes.Arrive(NodeArrive("b", 1)), kWaits);
  nodes.Ticks(1);
  EXPECT_EQ(nodes.Hears(NodeArrive("a", 1)), "worker-0 worker-1 +worker-2:c");
  EXPECT_EQ(nodes.Arrive(NodeArrive("b", 1)), "worker-0 worker-1 +worker-2:c");
}

TEST(Barriers, NameEachDeathOnceAlsoOfWhoIsReplaced) {
  TestedNodes nodes = ThreeNodes();
  nodes.Ticks(4);
  nodes.Do(NodeArrive("a", 1));
  nodes.Do(NodeSign("b"));
  nodes.Ticks(1);
  EXPECT_EQ(nodes.Join("d"), 2);
  nodes.Do(NodeArrive("d", 1));
  EXPECT_EQ(nodes.Arrive(NodeArrive("b", 1)), "worker-0 worker-1 worker-2 +worker-2:c");
  nodes.Do(NodeArrive("a", 2));
  nodes.Do(NodeArrive("b", 2));
  EXPECT_EQ(nodes.Arrive(NodeArrive("d", 2)), "worker-0 worker-1 worker-2");
}

TEST(Barriers, NameTheFirstTimeWhoIsDead) {
  TestedNodes nodes = ThreeNodes();
  nodes.Ticks(4);
  nodes.Do(NodeSign("a"));
  nodes.Ticks(1);
  EXPECT_EQ(nodes.Arrive(NodeArrive("a", 1)), "worker-0 +worker-1:b +worker-2:c");
}

TEST(Barriers, DoNotWaitForWhoHasLeft) {
  TestedNodes nodes = ThreeNodes();
  nodes.Do(NodeArrive("a", 1));
  nodes.Do(NodeArrive("c", 1));
  nodes.Do(NodeLeave("c"));
  EXPECT_EQ(nodes.Arrive(NodeArrive("a", 1)), kWaits);
  nodes.Do(NodeLeave("b"));
  EXPECT_EQ(nodes.Hears(NodeArrive("a", 1)), "worker-0");
}

TEST(Barriers, TellWhoAsksAgainOfTheLastReleaseWhileTheNextGathers) {
  TestedNodes nodes = ThreeNodes();
  for (const char* instance : {"a", "b", "c"}) nodes.Do(NodeArrive(instance, 1));
  EXPECT_EQ(nodes.Arrive(NodeArrive("a", 2)), kWaits);
  EXPECT_EQ(nodes.Arrive(NodeArrive("b", 1)), "worker-0 worker-1 worker-2");
  EXPECT_THAT(nodes.Arrive(NodeArrive("a", 1)), HasSubstr("passing 1 at the barrier start comes "
                                                          "after passing 2 of the same node"));
  nodes.Do(NodeArrive("b", 2));
  EXPECT_EQ(nodes.Arrive(NodeArrive("c", 2)), "worker-0 worker-1 worker-2");
  EXPECT_THAT(nodes.Arrive(NodeArrive("c", 1)), HasSubstr("passing 1"));
}

TEST(Barriers, OfARoleConcernNobodyElse) {
  TestedNodes nodes = ThreeNodes();
  nodes.Join("p", "ps");
  nodes.Do(NodeArrive("a", 1, "start", "worker"));
  nodes.Do(NodeArrive("b", 1, "start", "worker"));
  EXPECT_THAT(nodes.Arrive(NodeArrive("p", 1, "start", "worker")),
              HasSubstr("ps-0 has another one"));
  EXPECT_THAT(nodes.Arrive(NodeArrive("p", 1)), HasSubstr("for the role worker, not for all"));
  EXPECT_EQ(nodes.Arrive(NodeArrive("p", 1, "servers", "ps")), "ps-0");
  EXPECT_EQ(nodes.Arrive(NodeArrive("c", 1, "start", "worker")), "worker-0 worker-1 worker-2");
}

TEST(Barriers, WaitUntilSoManyOfEachRoleLive) {
  TestedNodes nodes;
  nodes.Join("a");
  const auto start = [](const std::string& instance, uint32_t workers, uint32_t servers) {
    return WithLeast(WithLeast(NodeArrive(instance, 1), "worker", workers), "ps", servers);
  };
  EXPECT_EQ(nodes.Arrive(start("a", 2, 1)), kWaits);
  nodes.Join("p", "ps");
  EXPECT_EQ(nodes.Arrive(start("p", 1, 1)), kWaits) << "the larger number counts";
  nodes.Join("b");
  EXPECT_EQ(nodes.Arrive(start("b", 1, 1)), "worker-0 ps-0 worker-1");
  EXPECT_EQ(nodes.Arrive(start("a", 2, 1)), "worker-0 ps-0 worker-1");
  nodes.Do(NodeLeave("b"));
  nodes.Do(NodeArrive("a", 2));
  EXPECT_EQ(nodes.Arrive(NodeArrive("p", 2)), "worker-0 ps-0") << "a number counts once";
}

TEST(Barriers, ADeadNodeArrivesNowhere) {
  TestedNodes nodes = ThreeNodes();
  nodes.Do(NodeArrive("c", 1));
  nodes.Ticks(4);
  nodes.Do(NodeArrive("a", 1));
  nodes.Do(NodeSign("b"));
  nodes.Ticks(1);
  EXPECT_THAT(nodes.Arrive(NodeArrive("c", 1)), HasSubstr("is dead"));
  EXPECT_EQ(nodes.Arrive(NodeArrive("b", 1)), "worker-0 worker-1 +worker-2:c");
}

// "worker-0:a@a:7000=x worker-1:b@b:7000= #3": who has passed, and the number of the release.
std::string World(TestedNodes& nodes, const NodeCommand& command) {
  const StatusOr<NodeAnswer> answer = nodes.Tell(command);
  if (!answer.ok()) return std::string(answer.status().message());
  std::string text;
  for (const auto& each : answer->barrier.passed()) {
    text += NodeText(each.role(), each.rank()) + ":" + each.instance() + "@" + each.address() +
            "=" + each.value() + " ";
  }
  return text + "#" + std::to_string(answer->barrier.release());
}

TEST(Barriers, TellAllWhoAreReleasedWhatEachHasGiven) {
  TestedNodes nodes = ThreeNodes();
  nodes.Do(WithValue(NodeArrive("c", 1), "z"));
  nodes.Do(NodeArrive("b", 1));
  const std::string all = "worker-0:a@a:7000=x worker-1:b@b:7000= worker-2:c@c:7000=z #1";
  EXPECT_EQ(World(nodes, WithValue(NodeArrive("a", 1), "x")), all);
  nodes.Do(WithValue(NodeArrive("a", 2), "of the next release"));
  EXPECT_EQ(World(nodes, NodeArrive("b", 1)), all);
  nodes.Do(NodeArrive("c", 2));
  EXPECT_EQ(World(nodes, NodeArrive("b", 2)),
            "worker-0:a@a:7000=of the next release worker-1:b@b:7000= worker-2:c@c:7000= #2");
}

TEST(Barriers, TellOfWhoHasPassedAlsoWhenItIsReplaced) {
  TestedNodes nodes = ThreeNodes();
  for (const char* instance : {"a", "b", "c"}) nodes.Do(NodeArrive(instance, 1));
  nodes.Do(NodeLeave("b"));
  EXPECT_EQ(nodes.Join("d"), 1);
  EXPECT_EQ(World(nodes, NodeArrive("a", 1)),
            "worker-0:a@a:7000= worker-1:b@b:7000= worker-2:c@c:7000= #1");
}

TEST(Barriers, NumberTheirReleasesAlsoWhenTheyWereForgotten) {
  TestedNodes nodes;
  nodes.Join("a");
  EXPECT_THAT(World(nodes, NodeArrive("a", 1, "start")), HasSubstr("#1"));
  EXPECT_THAT(World(nodes, NodeArrive("a", 1, "other")), HasSubstr("#2"));
  nodes.Do(NodeLeave("a"));
  EXPECT_THAT(nodes.nodes.barriers().barriers(), IsEmpty());
  nodes.Join("b");
  EXPECT_THAT(World(nodes, NodeArrive("b", 1, "start")), HasSubstr("#3"));
}

TEST(Barriers, BoundTheBytesOfAllValues) {
  TestedNodes nodes;
  const size_t most = kMostValuesBytes / kMostValueBytes;
  const auto arrive = [&](size_t i, uint64_t passing) {
    return nodes.Arrive(
        WithValue(NodeArrive("n" + std::to_string(i), passing), std::string(kMostValueBytes, 'v')));
  };
  for (size_t i = 0; i <= most; ++i) nodes.Join("n" + std::to_string(i));
  for (size_t i = 0; i < most; ++i) EXPECT_EQ(arrive(i, 1), kWaits);
  EXPECT_THAT(arrive(most, 1), HasSubstr("the values of all nodes at the barrier start"));
  EXPECT_EQ(arrive(0, 1), kWaits) << "said again";
  EXPECT_THAT(nodes.Arrive(NodeArrive("n" + std::to_string(most), 1)), HasSubstr("worker-128"));
  for (size_t i = 1; i <= most; ++i) arrive(i, 2);
  EXPECT_THAT(arrive(0, 1), HasSubstr("worker-128")) << "what is over is no burden";
}

TEST(Barriers, AreForgottenWithTheLastWhoUsedThem) {
  TestedNodes nodes = ThreeNodes();
  nodes.Do(NodeArrive("a", 1));
  nodes.Do(NodeLeave("a"));
  EXPECT_THAT(nodes.nodes.barriers().barriers(), IsEmpty());
}

TEST(Barriers, AreAsManyAsTheyMayBeAndNoMore) {
  TestedNodes nodes;
  nodes.Join("a");
  for (size_t i = 0; i < kMostBarriers; ++i) {
    EXPECT_EQ(nodes.Arrive(NodeArrive("a", 1, "b" + std::to_string(i))), "worker-0");
  }
  EXPECT_THAT(nodes.Arrive(NodeArrive("a", 1, "one more")), HasSubstr("has 100 barriers"));
  EXPECT_EQ(nodes.Arrive(NodeArrive("a", 2, "b0")), "worker-0");
}

TEST(Barriers, BoundTheRolesWhoseNodesTheyWaitFor) {
  TestedNodes nodes = ThreeNodes();
  const auto arrive = [](const std::string& instance, char from) {
    NodeCommand command = NodeArrive(instance, 1);
    for (size_t i = 0; i < kMostLeastRoles; ++i) {
      command = WithLeast(std::move(command), std::string(1, from) + std::to_string(i), 1);
    }
    return command;
  };
  EXPECT_EQ(nodes.Arrive(arrive("a", 'x')), kWaits);
  EXPECT_THAT(nodes.Arrive(arrive("b", 'y')), HasSubstr("roles of which nodes are to live"));
}

}  // namespace
}  // namespace millrace
