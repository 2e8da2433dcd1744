#include "base/side_by_side.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>

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
