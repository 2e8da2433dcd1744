#include "base/stall_watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

TEST(StallWatch, IsSilentWhileThereIsProgress) {
  std::atomic<int> stalls = 0;
  StallWatch watch(std::chrono::minutes(1), [&] { ++stalls; });
  for (int i = 0; i < 100; ++i) watch.Progress();
  EXPECT_EQ(stalls, 0);
}

TEST(StallWatch, ToldOfProgressWaitsAsLongAgain) {
  std::atomic<int> stalls = 0;
  steady_clock::time_point last;
  steady_clock::time_point stalled;
  {
    StallWatch watch(milliseconds(200), [&] {
      stalled = steady_clock::now();
      ++stalls;
    });
    std::this_thread::sleep_for(milliseconds(100));
    last = steady_clock::now();
    watch.Progress();
    while (stalls == 0) std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_GE(stalled - last, milliseconds(200));
  EXPECT_EQ(stalls, 1);
}

TEST(StallWatch, EndsAtOnceThoughItsTimeIsLong) {
  const auto begin = steady_clock::now();
  {
    const StallWatch watch(std::chrono::hours(1), [] {});
  }
  EXPECT_LT(steady_clock::now() - begin, std::chrono::minutes(1));
}

}  // namespace
}  // namespace millrace
