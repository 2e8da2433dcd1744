#include "base/side_by_side.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

namespace millrace {
namespace {

TEST(SideBySide, RunsEachJobOnceAndReturnsWhenAllHaveReturned) {
  SideBySide threads(3);
  for (size_t count = 0; count < 200; ++count) {
    std::vector<int> runs(count % 20);
    size_t own = 0;
    threads.Run(
        runs.size(), [&](size_t i) { ++runs[i]; }, [&] { ++own; });
    EXPECT_EQ(runs, std::vector<int>(runs.size(), 1));
    EXPECT_LE(own, runs.size());
  }
}

TEST(SideBySide, RunsJobsAtTheSameTime) {
  SideBySide threads(2);
  std::atomic<int> here = 0;
  // Each waits for the other.
  threads.Run(2, [&](size_t) {
    ++here;
    while (here < 2) std::this_thread::yield();
  });
  EXPECT_EQ(here, 2);
}

TEST(SideBySide, LeavesOthersAsleepAfterARunOfShortJobsUntilTheyAreLongAgain) {
  SideBySide threads(2);
  const auto own_of = [&](std::chrono::milliseconds each) {
    std::atomic<size_t> own = 0;
    const auto caller = std::this_thread::get_id();
    threads.Run(20, [&](size_t) {
      if (std::this_thread::get_id() == caller) ++own;
      const auto end = std::chrono::steady_clock::now() + each;
      while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
    });
    return own.load();
  };
  // (A job that should be short may take long on a busy machine, and the next run then has help.)
  size_t alone = 0;
  for (int i = 0; i < 100; ++i) alone += own_of(std::chrono::milliseconds(0)) == 20 ? 1 : 0;
  EXPECT_GT(alone, 0U);
  own_of(std::chrono::milliseconds(5));
  EXPECT_LT(own_of(std::chrono::milliseconds(5)), 20U);
}

TEST(SideBySide, RunsOnTheCallersThreadAloneWhereOneIsTheMost) {
  SideBySide threads(1);
  std::set<std::thread::id> seen;
  size_t own = 0;
  threads.Run(
      5, [&](size_t) { seen.insert(std::this_thread::get_id()); }, [&] { ++own; });
  EXPECT_EQ(seen, std::set<std::thread::id>{std::this_thread::get_id()});
  EXPECT_EQ(own, 5U);
}

}  // namespace
}  // namespace millrace
