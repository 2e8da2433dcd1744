// How calls of nodes become commands, and when they are answered.
#include "processors/node_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/processors/node_fixture.h"

namespace millrace {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

class NodeCallsTest : public testing::Test {
 protected:
  // One turn of a loop whose every record is written.
  std::vector<std::pair<NodeCalls::Id, StatusOr<NodeAnswer>>> Turn() {
    for (const NodeCommand& command : calls_.TakeCommands(nodes_)) nodes_.Apply(command);
    return calls_.TakeAnswers(nodes_);
  }

  NodeCalls calls_{5};
  JobNodes nodes_;
};

TEST_F(NodeCallsTest, AnswersWhenTheCommandIsFolded) {
  calls_.Add(1, NodeJoin("a"));
  const std::vector<NodeCommand> commands = calls_.TakeCommands(nodes_);
  ASSERT_THAT(commands, SizeIs(1));
  EXPECT_EQ(commands[0].front(), 5u);
  EXPECT_EQ(commands[0].number(), 1u);
  EXPECT_THAT(calls_.TakeAnswers(nodes_), IsEmpty());
  nodes_.Apply(commands[0]);
  const auto answers = calls_.TakeAnswers(nodes_);
  ASSERT_THAT(answers, SizeIs(1));
  EXPECT_EQ(answers[0].second->member.instance(), "a");
  EXPECT_THAT(Turn(), IsEmpty()) << "answered once";
}

TEST_F(NodeCallsTest, TellsWhoIsRefusedWhy) {
  calls_.Add(1, NodeSign("a"));
  const auto answers = Turn();
  ASSERT_THAT(answers, SizeIs(1));
  EXPECT_TRUE(absl::IsNotFound(answers[0].second.status()));
}

TEST_F(NodeCallsTest, KeepsWhoWaitsAtABarrierWithoutAnotherCommand) {
  calls_.Add(1, NodeJoin("a"));
  calls_.Add(2, NodeJoin("b"));
  EXPECT_THAT(Turn(), SizeIs(2));
  calls_.Add(3, NodeArrive("a", 1));
  EXPECT_THAT(Turn(), IsEmpty());
  EXPECT_THAT(calls_.TakeCommands(nodes_), IsEmpty());
  calls_.Add(4, NodeArrive("b", 1));
  EXPECT_THAT(Turn(), SizeIs(2));
}

TEST_F(NodeCallsTest, SaysAgainWhatWasNotWritten) {
  calls_.Add(1, NodeJoin("a"));
  EXPECT_THAT(calls_.TakeCommands(nodes_), SizeIs(1));  // its transaction is aborted
  EXPECT_THAT(Turn(), SizeIs(1));
}

TEST_F(NodeCallsTest, SaysEverythingAgainAfterAnotherMaster) {
  calls_.Add(1, NodeJoin("a"));
  calls_.Add(2, NodeJoin("b"));
  Turn();
  calls_.Add(3, NodeArrive("a", 1));
  Turn();
  NodeCommand other = NodeJoin("c");
  other.set_front(9);
  other.set_number(1);
  nodes_.Apply(other);
  calls_.Restart(12, nodes_);
  const std::vector<NodeCommand> commands = calls_.TakeCommands(nodes_);
  ASSERT_THAT(commands, SizeIs(1));
  EXPECT_EQ(commands[0].front(), 12u);
  EXPECT_EQ(commands[0].number(), 1u);
}

TEST_F(NodeCallsTest, TellsWhoThereIsWithoutACommand) {
  calls_.Add(1, NodeJoin("a"));
  Turn();
  nodes_.Tick(1);
  calls_.Add(2, NodeCommand());
  EXPECT_THAT(calls_.TakeCommands(nodes_), IsEmpty());
  const auto answers = calls_.TakeAnswers(nodes_);
  ASSERT_THAT(answers, SizeIs(1));
  ASSERT_THAT(answers[0].second->members, SizeIs(1));
  EXPECT_EQ(answers[0].second->ticks, 1u);
}

TEST_F(NodeCallsTest, ForgetsWhoHasGone) {
  calls_.Add(1, NodeJoin("a"));
  calls_.Remove(1);
  EXPECT_THAT(Turn(), IsEmpty());
  EXPECT_THAT(nodes_.members().members(), IsEmpty());
}

}  // namespace
}  // namespace millrace
