#include "producer/turn_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace millrace {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

const TurnWatch::Time kStart{seconds(1000)};

TEST(TurnWatch, WarnsOnceOfLongTurnsOfRowsThatComeSlowly) {
  TurnWatch watch;
  EXPECT_FALSE(watch.Look(256, 0, kStart - seconds(60))) << "no rows yet";
  EXPECT_FALSE(watch.Look(256, 5, kStart));
  EXPECT_FALSE(watch.Look(256, 50, kStart + seconds(9)));
  const auto warning = watch.Look(256, 51, kStart + seconds(10));
  ASSERT_TRUE(warning);
  EXPECT_THAT(*warning, HasSubstr("256 rows at a time, and as they come now that takes 50 s"));
  EXPECT_FALSE(watch.Look(256, 51, kStart + seconds(100)));
}

TEST(TurnWatch, IsSilentWhereTurnsAreShort) {
  TurnWatch fast;
  EXPECT_FALSE(fast.Look(256, 1, kStart));
  EXPECT_FALSE(fast.Look(256, 10'000, kStart + seconds(10)));
  TurnWatch single;
  EXPECT_FALSE(single.Look(1, 1, kStart));
  EXPECT_FALSE(single.Look(1, 1, kStart + seconds(10)));
}

}  // namespace
}  // namespace millrace
