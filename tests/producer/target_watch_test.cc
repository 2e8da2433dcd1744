#include "producer/target_watch.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

namespace millrace {
namespace {

class TargetWatchTest : public testing::Test {
 protected:
  // Of normal targets; and that it is told with the 1,000th or never.
  std::optional<TargetWatch::Coarse> Told(double mean, double deviation) {
    std::mt19937 random(1);
    std::normal_distribution<double> targets(mean, deviation);
    TargetWatch watch;
    std::optional<TargetWatch::Coarse> told;
    for (int i = 1; i <= 3000; ++i) {
      const auto now = watch.Observe(static_cast<float>(targets(random)));
      EXPECT_TRUE(!now || i == 1000) << i;
      if (now) told = now;
    }
    return told;
  }
};

TEST_F(TargetWatchTest, TellsTargetsThatFloatsHardlyTellApart) {
  const auto told = Told(1e9, 2.5);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->mean, 1e9);
  EXPECT_EQ(told->deviation, 0) << "all are equal by now";
  EXPECT_EQ(told->step, 64);
  EXPECT_TRUE(Told(-1e9, 2.5));
  EXPECT_TRUE(Told(1e7, 2.5));
  EXPECT_TRUE(Told(1.7e9, 300)) << "five minutes of seconds since 1970";
}

TEST_F(TargetWatchTest, TellsNothingOfOthers) {
  EXPECT_FALSE(Told(1e9, 1e5));
  EXPECT_FALSE(Told(1e6, 2.5));
  EXPECT_FALSE(Told(0, 1e-9));
  EXPECT_FALSE(Told(7, 0)) << "a constant";
}

}  // namespace
}  // namespace millrace
