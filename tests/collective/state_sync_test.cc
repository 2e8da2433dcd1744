// Who gets whose state.
#include "collective/state_sync.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/collective/gatherer.h"

namespace millrace {
namespace {

// What each member has afterwards, who begins with the state "c..c" of its clock c.
std::vector<std::string> AfterSync(const std::vector<uint64_t>& clocks) {
  std::vector<std::string> states(clocks.size());
  RunMembers(clocks.size(), [&](size_t i, const Gather& gather) {
    StatusOr<World> world = World::Join({}, "m" + std::to_string(i), gather);
    ASSERT_EQ(world.status(), absl::OkStatus());
    uint64_t clock = clocks[i];
    std::string state(100'000, static_cast<char>('0' + clock));
    EXPECT_EQ(TakeFurthest(*world, clock, std::as_writable_bytes(std::span(state))),
              absl::OkStatus());
    EXPECT_EQ(state, std::string(100'000, static_cast<char>('0' + clock)));
    states[i] = state.substr(0, 1);
  });
  return states;
}

TEST(TakeFurthest, GivesAllTheNewestState) {
  using States = std::vector<std::string>;
  EXPECT_EQ(AfterSync({3}), States{"3"});
  EXPECT_EQ(AfterSync({0, 7, 6, 7}), (States{"7", "7", "7", "7"}));
  EXPECT_EQ(AfterSync({5, 5}), (States{"5", "5"}));
}

TEST(TakeFurthest, LeavesClockAndStateAsTheyWereWhenAMemberDies) {
  RunMembers(2, [&](size_t i, const Gather& gather) {
    StatusOr<World> world = World::Join({}, "m" + std::to_string(i), gather);
    ASSERT_EQ(world.status(), absl::OkStatus());
    if (i == 1) return world->mesh().Break(absl::UnavailableError("it dies"));
    uint64_t clock = 1;
    std::string state = "one";
    const Status status = TakeFurthest(*world, clock, std::as_writable_bytes(std::span(state)));
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_EQ(clock, 1u);
    EXPECT_EQ(state, "one");
  });
}

}  // namespace
}  // namespace millrace
