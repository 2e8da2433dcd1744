// The fold of nodes and barriers under everything that may be said, and what it leaves in `plan`.
#include "processors/job_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>

#include "tests/processors/node_fixture.h"
#include "tests/processors/node_referee.h"

namespace millrace {
namespace {

using testing::HasSubstr;

struct Stored {
  MasterState state;
  Membership::Members members;
  std::map<std::string, BarrierState> barriers;
};

Stored Save(const JobNodes& nodes) {
  Stored stored;
  stored.state.set_ticks(nodes.ticks());
  nodes.Save(stored.state);
  stored.members = nodes.members().members();
  for (const auto& [name, barrier] : nodes.barriers().barriers()) {
    stored.barriers[name] = nodes.barriers().StateOf(name);
  }
  return stored;
}

Status LoadInto(JobNodes& nodes, const Stored& stored) {
  return nodes.Load(stored.state, stored.members, stored.barriers);
}

TEST(JobNodes, ACommandThatIsNotBehindTheLastChangesNothing) {
  TestedNodes nodes;
  nodes.Join("a");
  NodeCommand late = NodeLeave("a");
  late.set_front(1);
  late.set_number(1);
  nodes.nodes.Apply(late);
  EXPECT_TRUE(nodes.Signs("a"));
  nodes.front = 2;  // another master
  nodes.number = 0;
  late.set_number(99);
  nodes.Join("b");
  nodes.nodes.Apply(late);
  EXPECT_TRUE(nodes.Signs("a"));
}

// What must hold of barriers after each command, whoever computes it.
void CheckBarriers(const JobNodes& nodes) {
  for (const auto& [name, barrier] : nodes.barriers().barriers()) {
    size_t living = 0;
    size_t arrived = 0;
    for (const auto& [key, member] : nodes.members().members()) {
      const bool is_in = barrier.arrived.contains(member.incarnation());
      const bool lives = member.phase() == MemberState::LIVE;
      ASSERT_TRUE(!is_in || lives) << "the dead wait";
      if (!lives || (!barrier.role.empty() && barrier.role != key.first)) continue;
      ++living;
      arrived += is_in ? 1 : 0;
    }
    ASSERT_EQ(arrived, barrier.arrived.size()) << "who waits is not a node that it is for";
    const bool may_go = barrier.least.empty() && arrived > 0 && arrived == living;
    ASSERT_FALSE(may_go) << "all wait for nobody";
  }
}

TEST(JobNodes, HoldsItsInvariantsUnderEverythingThatIsSaid) {
  uint64_t passed = 0;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    TestedNodes tested;
    NodeReferee referee;
    for (int i = 0; i < 400; ++i) {
      if (random() % 5 == 0) {
        tested.Ticks(1);
        referee.Tick();
      } else {
        const NodeCommand command =
            RandomNodeCommand(random, tested.nodes.members().incarnations());
        const StatusOr<NodeAnswer> answer = tested.Tell(command);
        referee.Apply(command);
        if (command.has_arrive() && answer.ok()) ++passed;
      }
      ASSERT_EQ(NodeReferee::TextOf(tested.nodes), referee.Text());
      ASSERT_NO_FATAL_FAILURE(CheckBarriers(tested.nodes));
      JobNodes restored;
      ASSERT_EQ(LoadInto(restored, Save(tested.nodes)), absl::OkStatus());
      ASSERT_EQ(TextOfNodes(restored), TextOfNodes(tested.nodes));
      if (random() % 10 == 0) tested.nodes = std::move(restored);
    }
  }
  EXPECT_GT(passed, 100u);
}

TEST(JobNodes, RefusesAPlanThatContradictsItself) {
  TestedNodes tested;
  for (const char* instance : {"a", "b", "c"}) tested.Join(instance);
  tested.Ticks(4);
  tested.Do(NodeSign("a"));
  tested.Do(NodeSign("b"));
  tested.Ticks(1);
  tested.Do(NodeArrive("a", 1));
  const Stored good = Save(tested.nodes);
  const Membership::Key first("worker", 0);
  const auto why = [&](const std::function<void(Stored&)>& change) {
    Stored stored = good;
    change(stored);
    JobNodes nodes;
    return std::string(TextOf(LoadInto(nodes, stored)));
  };
  const auto member = [&](const std::function<void(MemberState&)>& change) {
    return why([&](Stored& stored) { change(stored.members.at(first)); });
  };
  const auto barrier = [&](const std::function<void(BarrierState&)>& change) {
    return why([&](Stored& stored) { change(stored.barriers.at("start")); });
  };
  EXPECT_EQ(why([](Stored&) {}), "");
  EXPECT_THAT(why([&](Stored& s) { s.members.erase(first); }), HasSubstr("lowest rank"));
  EXPECT_THAT(why([](Stored& s) { s.state.set_node_incarnations(2); }), HasSubstr("never joined"));
  EXPECT_THAT(why([](Stored& s) { s.state.set_node_command(UINT64_MAX); }), HasSubstr("number"));
  EXPECT_THAT(member([](MemberState& m) { m.set_instance("b"); }), HasSubstr("two nodes"));
  EXPECT_THAT(member([](MemberState& m) { m.set_incarnation(2); }), HasSubstr("of another"));
  EXPECT_THAT(member([](MemberState& m) { m.set_role("ps"); }), HasSubstr("another's place"));
  EXPECT_THAT(member([](MemberState& m) { m.set_address(""); }), HasSubstr("address"));
  EXPECT_THAT(member([](MemberState& m) { m.set_last_sign_tick(6); }), HasSubstr("tick"));
  EXPECT_THAT(member([](MemberState& m) { m.set_last_sign_tick(0); }), HasSubstr("too long"));
  EXPECT_THAT(member([](MemberState& m) { m.set_phase(MemberState::DEAD); }),
              HasSubstr("too early"));
  EXPECT_THAT(member([](MemberState& m) { m.set_timeout_ticks(0); }), HasSubstr("cannot be"));
  EXPECT_THAT(barrier([](BarrierState& b) { b.clear_arrived(); }), HasSubstr("as nodes have left"));
  EXPECT_THAT(barrier([](BarrierState& b) { b.mutable_arrived(0)->set_rank(2); }),
              HasSubstr("as nodes have left"));
  EXPECT_THAT(barrier([](BarrierState& b) { b.mutable_arrived(0)->set_passing(0); }),
              HasSubstr("cannot be"));
  EXPECT_THAT(barrier([](BarrierState& b) { *b.add_arrived() = b.arrived(0); }),
              HasSubstr("twice"));
  EXPECT_THAT(barrier([](BarrierState& b) { b.set_role("ps"); }), HasSubstr("cannot be"));
  EXPECT_THAT(barrier([](BarrierState& b) { b.set_release(1); }), HasSubstr("last release"));
  EXPECT_THAT(why([](Stored& s) { s.state.set_barrier_releases(UINT64_MAX); }),
              HasSubstr("releases of barriers"));
  EXPECT_THAT(barrier([](BarrierState& b) {
                b.mutable_arrived(0)->set_value(std::string(kMostValueBytes + 1, 'v'));
              }),
              HasSubstr("bytes of a node's value"));
  EXPECT_THAT(barrier([](BarrierState& b) {
                *b.add_passed() = b.arrived(0);
                b.mutable_passed(0)->set_instance("a");
              }),
              HasSubstr("address"));
  EXPECT_THAT(barrier([](BarrierState& b) { b.mutable_deaths(0)->set_rank(7); }),
              HasSubstr("cannot be"));
  EXPECT_THAT(barrier([](BarrierState& b) { b.add_least()->set_role("worker"); }),
              HasSubstr("cannot be"));
}

}  // namespace
}  // namespace millrace
