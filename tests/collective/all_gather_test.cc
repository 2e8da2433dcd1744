// Bytes of any number, from all to all, and from the furthest.
#include "collective/all_gather.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/collective/gatherer.h"

namespace millrace {
namespace {

using Texts = std::vector<std::string>;

StatusOr<World> JoinAs(size_t i, const Gather& gather) {
  return World::Join({}, "m" + std::to_string(i), gather);
}

TEST(AllGather, TellsAllWhatEachSaysHoweverLong) {
  const std::vector<Texts> rounds = {
      {"a", "", std::string(300'000, 'c')}, {"", "", ""}, {"x", "yy", "z"}};
  RunMembers(3, [&](size_t i, const Gather& gather) {
    StatusOr<World> world = JoinAs(i, gather);
    ASSERT_EQ(world.status(), absl::OkStatus());
    for (const Texts& said : rounds) {
      const StatusOr<Texts> heard = AllGather(*world, said[i]);
      ASSERT_EQ(heard.status(), absl::OkStatus());
      EXPECT_EQ(*heard, said);
    }
  });
}

TEST(AllGather, FailsInTheOthersWhenAMemberDies) {
  RunMembers(3, [&](size_t i, const Gather& gather) {
    StatusOr<World> world = JoinAs(i, gather);
    ASSERT_EQ(world.status(), absl::OkStatus());
    if (i == 1) return world->mesh().Break(absl::UnavailableError("it dies"));
    EXPECT_TRUE(absl::IsUnavailable(AllGather(*world, "something").status()));
  });
}

// What each has of the furthest who begins with the clock; "-": nothing.
Texts AfterFurthest(const std::vector<uint64_t>& clocks) {
  Texts taken(clocks.size());
  RunMembers(clocks.size(), [&](size_t i, const Gather& gather) {
    StatusOr<World> world = JoinAs(i, gather);
    ASSERT_EQ(world.status(), absl::OkStatus());
    const auto encode = [&]() -> StatusOr<std::string> {
      return "state of m" + std::to_string(i) + std::string(clocks[i] * 1'000, '.');
    };
    const auto state = FurthestState(*world, clocks[i], encode);
    ASSERT_EQ(state.status(), absl::OkStatus());
    taken[i] = state->has_value() ? (*state)->substr(0, 11) : "-";
    if (state->has_value()) {
      EXPECT_EQ((*state)->size(), 11 + 1'000 * clocks[(*state)->at(10) - '0']);
    }
    // The world is still of use.
    EXPECT_EQ(AllGather(*world, "x").status(), absl::OkStatus());
  });
  return taken;
}

TEST(FurthestState, GoesToThoseWhoAreBehind) {
  EXPECT_EQ(AfterFurthest({3}), Texts{"-"});
  EXPECT_EQ(AfterFurthest({5, 5}), (Texts{"-", "-"}));
  EXPECT_EQ(AfterFurthest({0, 7, 6, 7}), (Texts{"state of m1", "-", "state of m1", "-"}));
}

TEST(FurthestState, FailsInAllWhenItCannotBeMade) {
  RunMembers(2, [&](size_t i, const Gather& gather) {
    StatusOr<World> world = JoinAs(i, gather);
    ASSERT_EQ(world.status(), absl::OkStatus());
    const auto encode = []() -> StatusOr<std::string> {
      return absl::ResourceExhaustedError("no");
    };
    const Status status = FurthestState(*world, 1 - i, encode).status();
    EXPECT_EQ(status.code(),
              i == 0 ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kUnavailable);
  });
}

}  // namespace
}  // namespace millrace
