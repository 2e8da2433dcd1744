#include "rpc/watchdog.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace millrace::grpc_internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

class WatchdogTest : public testing::Test {
 protected:
  bool BarksWithin(milliseconds time) {
    const auto end = steady_clock::now() + time;
    while (barks_ == 0 && steady_clock::now() < end) std::this_thread::sleep_for(milliseconds(1));
    return barks_ > 0;
  }

  std::atomic<bool> stop_ = false;
  std::atomic<int> barks_ = 0;
};

TEST_F(WatchdogTest, BarksOnceWhenADeadlinePasses) {
  steady_clock::time_point barked_at;
  Watchdog watchdog(stop_, [&] {
    barked_at = steady_clock::now();
    ++barks_;
  });
  const auto deadline = steady_clock::now() + milliseconds(100);
  watchdog.Set(deadline);
  ASSERT_TRUE(BarksWithin(std::chrono::seconds(30)));
  EXPECT_GE(barked_at, deadline);
  EXPECT_TRUE(watchdog.barked());
  std::this_thread::sleep_for(milliseconds(120));
  EXPECT_EQ(barks_, 1);
}

TEST_F(WatchdogTest, WithoutADeadlineOrWithALaterOneItIsQuiet) {
  Watchdog watchdog(stop_, [this] { ++barks_; });
  for (int i = 0; i < 20; ++i) {
    watchdog.Set(steady_clock::now() + std::chrono::minutes(1));
    std::this_thread::sleep_for(milliseconds(5));
    watchdog.Clear();
  }
  EXPECT_FALSE(BarksWithin(milliseconds(150)));
  EXPECT_FALSE(watchdog.barked());
}

TEST_F(WatchdogTest, BarksWhenTheProgramIsStopped) {
  Watchdog watchdog(stop_, [this] { ++barks_; });
  stop_ = true;
  EXPECT_TRUE(BarksWithin(std::chrono::seconds(30)));
}

}  // namespace
}  // namespace millrace::grpc_internal
