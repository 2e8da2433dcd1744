// How members find each other.
#include "collective/world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collective/state_sync.h"
#include "tests/collective/gatherer.h"

namespace millrace {
namespace {

using testing::HasSubstr;

Gathered::Member Named(const std::string& instance, const std::string& value = "") {
  return {instance, value};
}

TEST(World, HasAnIdAndPositionsThatAllItsMembersAgreeOn) {
  for (const size_t count : {1, 2, 5}) {
    std::vector<uint64_t> ids(count);
    std::vector<uint32_t> positions(count);
    RunMembers(count, [&](size_t i, const Gather& gather) {
      StatusOr<World> world = World::Join({}, "m" + std::to_string(i), gather);
      ASSERT_EQ(world.status(), absl::OkStatus());
      ASSERT_EQ(world->instances()[world->position()], "m" + std::to_string(i));
      ids[i] = world->id();
      positions[i] = world->position();
      ASSERT_EQ(world->size(), count);
      uint64_t clock = i;
      EXPECT_EQ(TakeFurthest(*world, clock, {}), absl::OkStatus());
      EXPECT_EQ(clock, count - 1) << "they are connected";
    });
    EXPECT_EQ(std::set<uint64_t>(ids.begin(), ids.end()), std::set<uint64_t>{42});
    EXPECT_EQ(std::set<uint32_t>(positions.begin(), positions.end()).size(), count);
  }
}

TEST(World, IsAnotherOneEachTimeThatItIsJoined) {
  RunMembers(2, [&](size_t i, const Gather& gather) {
    uint64_t last = 0;
    for (int times = 0; times < 5; ++times) {
      StatusOr<World> world = World::Join({}, "m" + std::to_string(i), gather);
      ASSERT_EQ(world.status(), absl::OkStatus());
      EXPECT_GT(world->id(), last);
      last = world->id();
    }
  });
}

TEST(World, IsOfThoseWhoAreLeftWhenAMemberGoesBeforeTheyAreConnected) {
  Gatherer gatherer;
  std::vector<int> ends;
  for (const char* instance : {"a", "b", "c"}) ends.push_back(gatherer.Add(instance));
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    // It is released with the others once.
    (void)GatherBy(ends[1], "");
    close(ends[1]);
  });
  for (const size_t i : {0, 2}) {
    threads.emplace_back([&, i] {
      const auto gather = [&](const std::string& value) { return GatherBy(ends[i], value); };
      StatusOr<World> world = World::Join({}, i == 0 ? "a" : "c", gather);
      ASSERT_EQ(world.status(), absl::OkStatus());
      EXPECT_EQ(world->instances(), (std::vector<std::string>{"a", "c"}));
      close(ends[i]);
    });
  }
  gatherer.Serve();
  for (std::thread& thread : threads) thread.join();
}

TEST(World, IsNotEnteredWithAMemberThatIsNotThere) {
  uint64_t release = 0;
  const auto gather = [&](const std::string& value) -> StatusOr<Gathered> {
    // The other says what this one says: that it waits at the same address, but at another port.
    std::string other = value;
    if (!other.empty()) {
      other[other.size() - 4] = '\0';
      other[other.size() - 3] = '\1';  // port 1
    }
    return Gathered{++release, {Named("a", value), Named("b", other)}};
  };
  MeshOptions options;
  options.connect_timeout = std::chrono::milliseconds(1'000);
  const StatusOr<World> world = World::Join(options, "a", gather);
  EXPECT_TRUE(absl::IsUnavailable(world.status())) << world.status();
  EXPECT_THAT(world.status().message(), HasSubstr("cannot connect to member 1 at 127.0.0.1, port"));
}

TEST(World, IsNotWaitedForForEver) {
  uint64_t release = 0;
  const auto gather = [&](const std::string& value) -> StatusOr<Gathered> {
    return Gathered{++release, {Named("a", value), Named("b", "no invitation")}};
  };
  const StatusOr<World> world = World::Join({}, "a", gather);
  EXPECT_TRUE(absl::IsFailedPrecondition(world.status())) << world.status();
  EXPECT_THAT(world.status().message(), HasSubstr("after 100 releases"));
}

TEST(World, TakesNoInvitationOfAnEarlierRelease) {
  // The other's invitations are one release old, as of a member that was connected before.
  uint64_t release = 0;
  std::string older;
  const auto gather = [&](const std::string& value) -> StatusOr<Gathered> {
    return Gathered{++release, {Named("a", value), Named("b", std::exchange(older, value))}};
  };
  const StatusOr<World> world = World::Join({}, "a", gather);
  EXPECT_TRUE(absl::IsFailedPrecondition(world.status())) << world.status();
}

TEST(World, IsOfThoseWhoAreGathered) {
  const auto gather = [](const std::string&) -> StatusOr<Gathered> {
    return Gathered{1, {Named("b")}};
  };
  EXPECT_TRUE(absl::IsFailedPrecondition(World::Join({}, "a", gather).status()));
  const auto refused = [](const std::string&) -> StatusOr<Gathered> {
    return absl::NotFoundError("it has not joined");
  };
  EXPECT_TRUE(absl::IsNotFound(World::Join({}, "a", refused).status()));
}

TEST(World, SaysWhenAValueHasNoRoomForThePorts) {
  const auto gather = [](const std::string&) -> StatusOr<Gathered> {
    Gathered gathered{1, {Named("a")}};
    while (gathered.members.size() < 510) gathered.members.push_back(Named("other"));
    return gathered;
  };
  const StatusOr<World> world = World::Join({}, "a", gather);
  EXPECT_TRUE(absl::IsResourceExhausted(world.status())) << world.status();
  EXPECT_THAT(world.status().message(), HasSubstr("510 members"));
}

TEST(World, SaysWhereItCannotListen) {
  MeshOptions options;
  options.host = "203.0.113.7";  // of no machine (RFC 5737)
  const auto gather = [](const std::string&) -> StatusOr<Gathered> {
    return Gathered{1, {Named("a"), Named("b")}};
  };
  const StatusOr<World> world = World::Join(options, "a", gather);
  EXPECT_TRUE(absl::IsFailedPrecondition(world.status())) << world.status();
  EXPECT_THAT(world.status().message(),
              HasSubstr("cannot listen at 203.0.113.7 for the other members: Cannot assign"));
}

}  // namespace
}  // namespace millrace
