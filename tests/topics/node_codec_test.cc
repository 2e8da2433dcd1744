// What nodes may say.
#include "topics/node_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace millrace {
namespace {

using testing::HasSubstr;

NodeCommand Numbered() {
  NodeCommand command;
  command.set_number(1);
  return command;
}

NodeCommand SomeJoin() {
  NodeCommand command = Numbered();
  command.mutable_join()->set_role("worker");
  command.mutable_join()->set_instance("8c3f");
  command.mutable_join()->set_address("10.0.0.5:7000");
  command.mutable_join()->set_timeout_ticks(30);
  return command;
}

NodeCommand SomeArrival() {
  NodeCommand command = Numbered();
  command.mutable_arrive()->set_instance("8c3f");
  command.mutable_arrive()->set_barrier("start");
  command.mutable_arrive()->set_passing(1);
  return command;
}

std::string Refused(const NodeCommand& command) {
  const Status status = CheckNodeCommand(command);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << command.DebugString();
  return std::string(TextOf(status));
}

std::string RefusedJoin(void (*change)(NodeCommand::Join&)) {
  NodeCommand command = SomeJoin();
  change(*command.mutable_join());
  return Refused(command);
}

std::string RefusedArrival(void (*change)(NodeCommand::Arrive&)) {
  NodeCommand command = SomeArrival();
  change(*command.mutable_arrive());
  return Refused(command);
}

void AddLeast(NodeCommand::Arrive& arrive, const std::string& role, uint32_t nodes) {
  arrive.add_least()->set_role(role);
  arrive.mutable_least(arrive.least_size() - 1)->set_nodes(nodes);
}

TEST(NodeCodec, TakesWhatNodesSay) {
  EXPECT_EQ(CheckNodeCommand(SomeJoin()), absl::OkStatus());
  EXPECT_EQ(CheckNodeCommand(SomeArrival()), absl::OkStatus());
  NodeCommand sign = Numbered();
  sign.set_sign("8c3f");
  EXPECT_EQ(CheckNodeCommand(sign), absl::OkStatus());
  NodeCommand leave = Numbered();
  leave.set_leave("8c3f");
  EXPECT_EQ(CheckNodeCommand(leave), absl::OkStatus());
}

TEST(NodeCodec, RefusesWhatCannotBe) {
  EXPECT_THAT(Refused(NodeCommand()), HasSubstr("number 0"));
  EXPECT_THAT(Refused(Numbered()), HasSubstr("unknown kind"));
  EXPECT_THAT(RefusedJoin([](auto& join) { join.set_role("Worker 1"); }),
              HasSubstr("not a role of nodes"));
  EXPECT_THAT(RefusedJoin([](auto& join) { join.clear_instance(); }), HasSubstr("is empty"));
  EXPECT_THAT(RefusedJoin([](auto& join) { join.set_instance(std::string(65, 'x')); }),
              HasSubstr("bytes of a node's instance id"));
  EXPECT_THAT(RefusedJoin([](auto& join) { join.set_address("a\nb"); }),
              HasSubstr("control characters"));
  EXPECT_THAT(RefusedJoin([](auto& join) { join.set_timeout_ticks(0); }), HasSubstr("at least 1"));
  EXPECT_THAT(RefusedArrival([](auto& arrive) { arrive.clear_barrier(); }), HasSubstr("is empty"));
  EXPECT_THAT(RefusedArrival([](auto& arrive) { arrive.set_role("-"); }), HasSubstr("role"));
  EXPECT_THAT(RefusedArrival([](auto& arrive) { arrive.set_passing(0); }),
              HasSubstr("passing 0 at the barrier start"));
  EXPECT_THAT(RefusedArrival([](auto& arrive) { arrive.set_value(std::string(1025, 'v')); }),
              HasSubstr("bytes of a node's value"));
  EXPECT_THAT(RefusedArrival([](auto& arrive) { AddLeast(arrive, "ps", 0); }),
              HasSubstr("leave it out"));
  EXPECT_THAT(RefusedArrival([](auto& arrive) {
                AddLeast(arrive, "ps", 1);
                AddLeast(arrive, "ps", 2);
              }),
              HasSubstr("the role ps twice"));
  EXPECT_THAT(RefusedArrival([](auto& arrive) {
                arrive.set_role("worker");
                AddLeast(arrive, "ps", 1);
              }),
              HasSubstr("which is for the role worker"));
  EXPECT_THAT(RefusedArrival([](auto& arrive) {
                for (char c = 'a'; c < 'r'; ++c) AddLeast(arrive, std::string(1, c), 1);
              }),
              HasSubstr("out of range"));
}

}  // namespace
}  // namespace millrace
