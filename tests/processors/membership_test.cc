// Who has which rank, and who lives.
#include "processors/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/processors/node_fixture.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Refusal(TestedNodes& nodes, const NodeCommand& command) {
  const StatusOr<NodeAnswer> answer = nodes.Tell(command);
  return std::string(TextOf(answer.status()));
}

TEST(Membership, GivesEachNodeTheLowestFreeRankOfItsRole) {
  TestedNodes nodes;
  EXPECT_EQ(nodes.Join("a"), 0);
  EXPECT_EQ(nodes.Join("b"), 1);
  EXPECT_EQ(nodes.Join("p", "ps"), 0);
  EXPECT_EQ(nodes.Join("c"), 2);
  nodes.Do(NodeLeave("b"));
  EXPECT_EQ(nodes.Join("d"), 1) << "nobody is renumbered";
  EXPECT_EQ(nodes.Join("e"), 3);
}

TEST(Membership, ANodeIsDeadWhenSoManyTicksWereFoldedSinceItsLastSign) {
  TestedNodes nodes;
  nodes.Join("a");
  nodes.Join("b");
  nodes.Ticks(4);
  EXPECT_TRUE(nodes.Signs("a"));
  nodes.Ticks(1);
  EXPECT_TRUE(nodes.Signs("a"));
  EXPECT_THAT(Refusal(nodes, NodeSign("b")),
              HasSubstr("b was worker-1, which is dead: it gave no sign of life for 5 s"));
  nodes.Ticks(4);
  EXPECT_TRUE(nodes.Signs("a"));
}

TEST(Membership, AReplacementGetsTheRankOfTheDeadAndTheDeadIsRefusedFromThenOn) {
  TestedNodes nodes;
  nodes.Join("a");
  nodes.Ticks(5);
  EXPECT_THAT(Refusal(nodes, NodeJoin("a")), HasSubstr("is dead"));
  const StatusOr<NodeAnswer> joined = nodes.Tell(NodeJoin("b"));
  ASSERT_TRUE(joined.ok());
  EXPECT_EQ(joined->member.rank(), 0u);
  EXPECT_THAT(joined->member.earlier(), ElementsAre("a"));
  for (const NodeCommand& command : {NodeJoin("a"), NodeSign("a"), NodeLeave("a")}) {
    EXPECT_THAT(Refusal(nodes, command), HasSubstr("a was worker-0, and another has replaced it"));
  }
  nodes.Ticks(4);
  nodes.Do(NodeSign("a"));
  nodes.Ticks(1);
  EXPECT_THAT(Refusal(nodes, NodeSign("b")), HasSubstr("is dead")) << "the dead one kept it alive";
}

TEST(Membership, WhatIsSaidAgainIsAnsweredAgain) {
  TestedNodes nodes;
  EXPECT_EQ(nodes.Join("a"), 0);
  EXPECT_EQ(nodes.Join("a"), 0);
  EXPECT_TRUE(nodes.Signs("a"));
  EXPECT_TRUE(nodes.Tell(NodeLeave("a")).ok());
  EXPECT_TRUE(nodes.Tell(NodeLeave("a")).ok());
  EXPECT_THAT(Refusal(nodes, NodeSign("a")), HasSubstr("worker-0, and has left"));
  EXPECT_THAT(Refusal(nodes, NodeJoin("a")), HasSubstr("worker-0, and has left"));
  nodes.Ticks(9);
  EXPECT_TRUE(nodes.Tell(NodeLeave("a")).ok());
}

TEST(Membership, AJoinThatIsSaidAgainIsASign) {
  TestedNodes nodes;
  nodes.Join("a");
  nodes.Ticks(4);
  nodes.Join("a");
  nodes.Ticks(4);
  EXPECT_TRUE(nodes.Signs("a"));
}

TEST(Membership, RefusesWhoIsNotKnownOrHasAnotherRole) {
  TestedNodes nodes;
  nodes.Join("a");
  EXPECT_TRUE(absl::IsNotFound(nodes.Tell(NodeSign("b")).status()));
  EXPECT_TRUE(absl::IsNotFound(nodes.Tell(NodeLeave("b")).status()));
  EXPECT_THAT(Refusal(nodes, NodeJoin("a", "ps")), HasSubstr("a is worker-0 already"));
  EXPECT_EQ(nodes.nodes.members().members().size(), 1u);
}

TEST(Membership, HasAsManyRanksAsItMayAndNoMore) {
  TestedNodes nodes;
  for (size_t i = 0; i < kMostNodes; ++i) nodes.Do(NodeJoin("i" + std::to_string(i)));
  EXPECT_TRUE(absl::IsResourceExhausted(nodes.Tell(NodeJoin("one more")).status()));
  EXPECT_TRUE(absl::IsResourceExhausted(nodes.Tell(NodeJoin("other", "ps")).status()));
  nodes.Do(NodeLeave("i7"));
  EXPECT_EQ(nodes.Join("another"), 7);
}

TEST(Membership, KnowsTheLastInstancesOfARank) {
  TestedNodes nodes;
  for (size_t i = 0; i < Membership::kMostEarlier + 3; ++i) {
    const std::string instance = "i" + std::to_string(i);
    EXPECT_EQ(nodes.Join(instance), 0);
    nodes.Do(NodeLeave(instance));
  }
  EXPECT_EQ(nodes.nodes.members().members().begin()->second.earlier_size(),
            static_cast<int>(Membership::kMostEarlier));
  EXPECT_EQ(nodes.Join("i2"), -1);
  EXPECT_EQ(nodes.Join("i1"), 0) << "an older one is not known any more";
}

}  // namespace
}  // namespace millrace
