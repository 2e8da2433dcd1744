#include "features/time_value.h"

#include <gtest/gtest.h>

#include <optional>
#include <string_view>

namespace millrace {
namespace {

// 2013-01-01T10:00:00Z
constexpr int64_t kNewYear = 1357034400;

std::optional<int64_t> Microseconds(std::string_view text) {
  const std::optional<RecordedTime> time = ParseTime(text);
  if (!time) return std::nullopt;
  return time->count();
}

TEST(TimeValue, ReadsSecondsAndMilliseconds) {
  EXPECT_EQ(Microseconds("0"), 0);
  EXPECT_EQ(Microseconds("1357034400"), kNewYear * 1'000'000);
  EXPECT_EQ(Microseconds("1357034400.25"), kNewYear * 1'000'000 + 250'000);
  EXPECT_EQ(Microseconds("1357034400250"), kNewYear * 1'000'000 + 250'000);
  EXPECT_EQ(Microseconds("-1.5"), -1'500'000);
}

TEST(TimeValue, TakesNumbersFrom1e11OnForMilliseconds) {
  EXPECT_EQ(Microseconds("99999999999"), int64_t{99'999'999'999} * 1'000'000);
  EXPECT_EQ(Microseconds("100000000000"), int64_t{100'000'000'000} * 1'000);
}

TEST(TimeValue, ReadsIso8601) {
  for (const char* text :
       {"2013-01-01T10:00:00Z", "2013-01-01 10:00:00", "2013-01-01t10:00:00z", "2013-01-01T10:00",
        "2013-01-01T10:00Z", "2013-01-01T11:00:00+01:00", "2013-01-01T11:00:00+0100",
        "2013-01-01 05:00:00-05", "2013-01-01T10:00:00.000000000Z"}) {
    EXPECT_EQ(Microseconds(text), kNewYear * 1'000'000) << text;
  }
  EXPECT_EQ(Microseconds("2013-01-01"), (kNewYear - 36'000) * 1'000'000);
  EXPECT_EQ(Microseconds("2013-01-01T10:00:00.123456789"), kNewYear * 1'000'000 + 123'456);
  EXPECT_EQ(Microseconds("1969-12-31T23:59:59Z"), -1'000'000);
  EXPECT_EQ(Microseconds("2013-01-01T09:59:60Z"), kNewYear * 1'000'000) << "a leap second";
  EXPECT_EQ(Microseconds("2012-02-29"), int64_t{1330473600} * 1'000'000);
}

TEST(TimeValue, ReadsDatesWithPoints) {
  for (const char* text : {"01.01.2013 10:00", "01.01.2013T10:00:00.0", "01.01.2013 11:00+01"}) {
    EXPECT_EQ(Microseconds(text), kNewYear * 1'000'000) << text;
  }
  EXPECT_EQ(Microseconds("29.02.2012"), int64_t{1330473600} * 1'000'000);
  for (const char* text : {"1.1.2013", "29.02.2013", "32.01.2013", "01.13.2013", "01.01.13",
                           "00.01.2013", "01.01-2013", "01.01.2013."}) {
    EXPECT_EQ(Microseconds(text), std::nullopt) << text;
  }
}

TEST(TimeValue, TheWallHasItsZoneAndTheTimeHasNone) {
  const WallTime time = ParseWallTime("2013-01-01T12:30:00+02:30").value();
  EXPECT_EQ(time.time.count(), kNewYear * 1'000'000);
  EXPECT_EQ(time.wall.count(), (kNewYear + 9000) * 1'000'000);
  const WallTime behind = ParseWallTime("2013-01-01T05:00:00-0500").value();
  EXPECT_EQ(behind.time.count(), kNewYear * 1'000'000);
  EXPECT_EQ(behind.wall.count(), (kNewYear - 18000) * 1'000'000);
}

TEST(TimeValue, RefusesWhatIsNoTime) {
  for (const char* text : {"",
                           "NA",
                           "nan",
                           "inf",
                           "noon",
                           "2013-1-1",
                           "2013-13-01",
                           "2013-02-29",
                           "2013-01-32",
                           "2013-01-01T",
                           "2013-01-01T10",
                           "2013-01-01T24:00:00",
                           "2013-01-01T10:60",
                           "2013-01-01T10:00:61",
                           "2013-01-01T10:00:00.",
                           "2013-01-01T10:00:00X",
                           "2013-01-01T10:00:00+1",
                           "2013-01-01T10:00:00Z ",
                           "2013/01/01",
                           "-013-01-01",
                           "12013-01-01",
                           "infinite-past",
                           "2013-01-01T1:00:00",
                           "2013-01-01T10:0:00",
                           "2013-01-01T10:00:0",
                           "2013-01-01T10:00: 0",
                           "2013-01-01  10:00:00",
                           "2013-01-01T10:00:00 Z",
                           "2013-01-01T10:00+24",
                           "2013-01-01T10:00+01:60",
                           "1e300",
                           "1e15"}) {
    EXPECT_EQ(Microseconds(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace millrace
