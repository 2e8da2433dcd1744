// How fast rows arrive.
#include "stores/arrival_rate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace millrace {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

ArrivalRate RateOf(const std::vector<int64_t>& timestamps) {
  ArrivalRate rate;
  for (const int64_t timestamp : timestamps) rate.Add(timestamp);
  return rate;
}

std::string BytesOf(const ArrivalRate& rate) {
  std::string bytes;
  rate.AppendTo(bytes);
  return bytes;
}

TEST(ArrivalRateTest, ThereIsNoneUntilTwoRowsHaveCome) {
  EXPECT_EQ(RateOf({}).RowsPerMinute(), std::nullopt);
  EXPECT_EQ(RateOf({1000}).RowsPerMinute(), std::nullopt);
  EXPECT_EQ(RateOf({1000, 2000}).RowsPerMinute(), 60);
}

TEST(ArrivalRateTest, IsInfiniteWhenNoTimePassed) {
  EXPECT_EQ(RateOf({5, 5, 5}).RowsPerMinute(), std::numeric_limits<double>::infinity());
}

TEST(ArrivalRateTest, IsAMinuteOverTheMeanGap) {
  EXPECT_EQ(RateOf({0, 100, 400, 600}).RowsPerMinute(), 300);
}

TEST(ArrivalRateTest, ForgetsAllButTheLast500Gaps) {
  ArrivalRate rate = RateOf({0, 3'600'000});
  for (int i = 1; i < 500; ++i) rate.Add(3'600'000 + i);
  EXPECT_LT(*rate.RowsPerMinute(), 10) << "the hour is one of the last 500 gaps";
  rate.Add(3'600'500);
  EXPECT_EQ(rate.RowsPerMinute(), 60'000);
}

TEST(ArrivalRateTest, ATimestampBeforeItsPredecessorCountsAsNoTimePassed) {
  // One second forward, then a clock that is wrong by an hour, then one second from there.
  EXPECT_EQ(RateOf({3'600'000, 3'601'000, 1'000, 2'000}).RowsPerMinute(), 60'000.0 * 3 / 2'000);
}

TEST(ArrivalRateTest, IsAFunctionOfTheLast501Timestamps) {
  std::mt19937_64 random(5);
  std::vector<int64_t> timestamps;
  for (int i = 0; i < 2000; ++i) timestamps.push_back(static_cast<int64_t>(random() % 1'000'000));
  const ArrivalRate all = RateOf(timestamps);
  const ArrivalRate last = RateOf({timestamps.end() - 501, timestamps.end()});
  EXPECT_EQ(all.RowsPerMinute(), last.RowsPerMinute());
  EXPECT_EQ(BytesOf(all), BytesOf(last));
}

TEST(ArrivalRateTest, AbsurdTimestampsGiveSmallRatesAndNoOverflow) {
  ArrivalRate rate;
  for (int i = 0; i < 2000; ++i) rate.Add(i % 2 == 0 ? kMin : kMax);
  ASSERT_TRUE(rate.RowsPerMinute());
  EXPECT_GT(*rate.RowsPerMinute(), 0);
  EXPECT_LT(*rate.RowsPerMinute(), 1e-6);
}

TEST(ArrivalRateTest, AGapCountsAs35000YearsAtMost) {
  constexpr auto kMostMs = static_cast<double>(uint64_t{1} << 50);
  EXPECT_EQ(RateOf({kMin, kMax}).RowsPerMinute(), 60'000.0 / kMostMs);
}

TEST(ArrivalRateTest, GoesOnFromItsBytesAsIfNothingHadHappened) {
  std::mt19937_64 random(6);
  for (const int rows : {0, 1, 2, 499, 500, 501, 502, 1234}) {
    ArrivalRate live;
    int64_t now = 1'700'000'000'000;
    const auto add = [&](ArrivalRate& rate) { rate.Add(now); };
    const auto pass = [&] { now += static_cast<int64_t>(random() % 100'000) - 1000; };
    for (int i = 0; i < rows; ++i, pass()) add(live);
    ArrivalRate restored = RateOf({1, 2, 3});
    ASSERT_TRUE(restored.ParseFrom(BytesOf(live)));
    for (int i = 0; i < 1100; ++i, pass()) {
      ASSERT_EQ(restored.RowsPerMinute(), live.RowsPerMinute());
      ASSERT_EQ(restored.last_ms(), live.last_ms());
      ASSERT_EQ(BytesOf(restored), BytesOf(live));
      add(live);
      add(restored);
    }
  }
}

TEST(ArrivalRateTest, ItsBytesAreFew) {
  ArrivalRate rate;
  for (int64_t i = 0; i < 1000; ++i) rate.Add(1'700'000'000'000 + i * 16'000);
  EXPECT_LE(BytesOf(rate).size(), 1100u);
}

TEST(ArrivalRateTest, RefusesBytesThatItDidNotWriteAndStaysAsItWas) {
  const std::string good = BytesOf(RateOf({1, 2, 500}));
  ArrivalRate rate = RateOf({1, 2, 500});
  for (const std::string& bad :
       {good.substr(0, 3), good.substr(0, good.size() - 1), good + std::string(500, '\1'),
        good + std::string(9, '\xff') + '\1', good + std::string(11, '\xff')}) {
    EXPECT_FALSE(rate.ParseFrom(bad));
    EXPECT_EQ(BytesOf(rate), good);
  }
}

}  // namespace
}  // namespace millrace
