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

TEST(VectorClockTest, TheFurthestMayBeOneThatHasLeft) {
  VectorClock clocks(3);
  EXPECT_EQ(clocks.Furthest(), 0u);
  clocks.Set(0, {2, false});
  EXPECT_EQ(clocks.Furthest(), 2u);
  clocks.Set(1, {7, true});
  EXPECT_EQ(clocks.Furthest(), 7u);
  clocks.Set(0, {9, false});
  clocks.Leave(0);
  EXPECT_EQ(clocks.Furthest(), 9u);
  clocks.Set(2, {10, false});
  EXPECT_EQ(clocks.Furthest(), 10u);
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

// The members one by one, and everything counted anew each time.
class NaiveClock {
 public:
  explicit NaiveClock(uint32_t workers) : entries_(workers) {}
  VectorClock::Entry& operator[](WorkerId worker) { return entries_[worker]; }
  std::vector<Clock> Present() const {
    std::vector<Clock> present;
    for (const VectorClock::Entry& entry : entries_) {
      if (!entry.left) present.push_back(entry.clock);
    }
    std::sort(present.begin(), present.end());
    return present;
  }
  std::vector<WorkerId> PresentIn(Clock after, Clock last) const {
    std::vector<WorkerId> found;
    for (WorkerId worker = 0; worker < entries_.size(); ++worker) {
      const VectorClock::Entry& entry = entries_[worker];
      if (!entry.left && entry.clock > after && entry.clock <= last) found.push_back(worker);
    }
    return found;
  }

 private:
  std::vector<VectorClock::Entry> entries_;
};

TEST(VectorClockTest, IsTheNaiveClockAfterAnyChanges) {
  std::mt19937 random(21);
  for (int trial = 0; trial < 300; ++trial) {
    const auto workers = static_cast<uint32_t>(1 + random() % 9);
    const Clock base(trial % 7 == 0 ? UINT64_MAX - 40 : 0);
    VectorClock clocks(workers);
    NaiveClock naive(workers);
    for (WorkerId worker = 0; worker < workers; ++worker) {
      naive[worker].clock = base;
      clocks.Set(worker, naive[worker]);
    }
    for (int change = 0; change < 40; ++change) {
      const WorkerId worker(random() % workers);
      VectorClock::Entry& entry = naive[worker];
      if (random() % 8 == 0) {
        entry = {base + random() % 20, random() % 3 == 0};
        clocks.Set(worker, entry);
      } else if (entry.left) {
        continue;
      } else if (random() % 20 == 0) {
        entry.left = true;
        clocks.Leave(worker);
      } else if (entry.clock < UINT64_MAX) {
        ++entry.clock;
        clocks.Advance(worker);
      }
      ASSERT_EQ(clocks.clock(worker), entry.clock);
      ASSERT_EQ(clocks.left(worker), entry.left);
      const std::vector<Clock> present = naive.Present();
      ASSERT_EQ(clocks.present(), present.size());
      ASSERT_EQ(clocks.Min(), present.empty() ? std::nullopt : std::optional(present.front()));
      ASSERT_EQ(clocks.Max(), present.empty() ? std::nullopt : std::optional(present.back()));
      const Clock after = base + random() % 24;
      const Clock last = base + random() % 24;
      ASSERT_EQ(clocks.PresentIn(after, last), naive.PresentIn(after, last));
    }
  }
}

}  // namespace
}  // namespace millrace
