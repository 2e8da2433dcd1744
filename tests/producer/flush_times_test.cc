#include "producer/flush_times.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

using std::chrono::milliseconds;

constexpr Pacer::Time kBegin{};
constexpr milliseconds kWait(100);

TEST(FlushTimes, ItIsDueWhenTheFirstRowHasWaited) {
  FlushTimes times(2);
  EXPECT_FALSE(times.IsDue(0, kBegin, kWait)) << "there are no rows";
  times.Add(0, 3, kBegin);
  times.Add(0, 5, kBegin + milliseconds(90));
  EXPECT_FALSE(times.IsDue(0, kBegin + milliseconds(99), kWait));
  EXPECT_TRUE(times.IsDue(0, kBegin + milliseconds(100), kWait));
  EXPECT_FALSE(times.IsDue(1, kBegin + milliseconds(100), kWait)) << "of another partition";
  EXPECT_EQ(times.Take(0), 5u);
}

TEST(FlushTimes, BehindOneTheNextRowBeginsToWait) {
  FlushTimes times(1);
  times.Add(0, 1, kBegin);
  EXPECT_EQ(times.Take(0), 1u);
  EXPECT_FALSE(times.IsDue(0, kBegin + 10 * kWait, kWait)) << "no row has come since";
  times.Add(0, 1, kBegin + 10 * kWait);
  EXPECT_FALSE(times.IsDue(0, kBegin + 20 * kWait, kWait)) << "the same rows once more";
  times.Add(0, 2, kBegin + 20 * kWait);
  EXPECT_FALSE(times.IsDue(0, kBegin + 20 * kWait, kWait));
  EXPECT_TRUE(times.IsDue(0, kBegin + 21 * kWait, kWait));
}

}  // namespace
}  // namespace millrace
