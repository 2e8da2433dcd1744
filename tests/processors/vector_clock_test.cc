#include "processors/vector_clock.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

namespace millrace {
namespace {

TEST(VectorClockTest, StartsWithEveryMemberAtClockZero) {
  const VectorClock clocks(3);
  for (WorkerId worker = 0; worker < 3; ++worker) {
    EXPECT_TRUE(clocks.Contains(worker));
    EXPECT_EQ(clocks.clock(worker), 0u);
    EXPECT_FALSE(clocks.left(worker));
  }
  EXPECT_FALSE(clocks.Contains(3));
  EXPECT_EQ(clocks.entries().size(), 3u);
  EXPECT_EQ(clocks.Min(), 0u);
}

TEST(VectorClockTest, AdvancesOnlyTheNamedWorker) {
  VectorClock clocks(3);
  clocks.Advance(1);
  clocks.Advance(1);
  EXPECT_EQ(clocks.clock(0), 0u);
  EXPECT_EQ(clocks.clock(1), 2u);
  EXPECT_EQ(clocks.clock(2), 0u);
  EXPECT_EQ(clocks.Staleness(), 2u);
}

TEST(VectorClockTest, AMemberThatLeftKeepsItsClockButIsInNoMinimumOrMaximum) {
  VectorClock clocks(3);
  clocks.Set(0, {1, false});
  clocks.Set(1, {5, false});
  clocks.Set(2, {9, false});
  clocks.Leave(0);
  EXPECT_EQ(clocks.clock(0), 1u);
  EXPECT_TRUE(clocks.left(0));
  EXPECT_EQ(clocks.Min(), 5u);
  clocks.Leave(2);
  EXPECT_EQ(clocks.Max(), 5u);
  EXPECT_EQ(clocks.Staleness(), 0u);
}

TEST(VectorClockTest, HasNoMinimumOnceEverybodyHasLeft) {
  VectorClock clocks(2);
  clocks.Leave(0);
  EXPECT_FALSE(clocks.AllLeft());
  clocks.Leave(1);
  EXPECT_TRUE(clocks.AllLeft());
  EXPECT_EQ(clocks.Min(), std::nullopt);
  EXPECT_EQ(clocks.Max(), std::nullopt);
  EXPECT_EQ(clocks.Staleness(), 0u);
}

TEST(VectorClockTest, MinimumMaximumAndStalenessAreThoseOfTheMembersPresent) {
  std::mt19937 random(20);
  for (int trial = 0; trial < 2000; ++trial) {
    const auto workers = static_cast<uint32_t>(1 + random() % 8);
    VectorClock clocks(workers);
    std::vector<Clock> present;
    for (WorkerId worker = 0; worker < workers; ++worker) {
      const VectorClock::Entry entry{Clock(random() % 20), random() % 3 == 0};
      clocks.Set(worker, entry);
      if (!entry.left) present.push_back(entry.clock);
    }
    ASSERT_EQ(clocks.AllLeft(), present.empty());
    if (present.empty()) continue;
    std::sort(present.begin(), present.end());
    ASSERT_EQ(clocks.Min(), present.front());
    ASSERT_EQ(clocks.Max(), present.back());
    ASSERT_EQ(clocks.Staleness(), present.back() - present.front());
  }
}

}  // namespace
}  // namespace millrace
