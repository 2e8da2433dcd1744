#include "features/time_parts.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace {
namespace {

std::string Part(TimePart part, std::string_view text) {
  TimePartRoom room;
  return std::string(WriteTimePart(part, ParseWallTime(text).value(), &room));
}

TEST(TimeParts, AreThoseOfTheCalendar) {
  // 2013-01-31 was a Thursday, 2024-02-29 another, and 2023-12-31 a Sunday.
  EXPECT_EQ(Part(TimePart::kHour, "2013-01-31T23:59:59"), "23");
  EXPECT_EQ(Part(TimePart::kWeekday, "2013-01-31T23:59:59"), "4");
  EXPECT_EQ(Part(TimePart::kMonth, "2013-01-31T23:59:59"), "1");
  EXPECT_EQ(Part(TimePart::kWeekday, "2024-02-29"), "4");
  EXPECT_EQ(Part(TimePart::kWeekday, "2023-12-31"), "7");
  EXPECT_EQ(Part(TimePart::kMonth, "2023-12-31"), "12");
  EXPECT_EQ(Part(TimePart::kHour, "2023-12-31"), "0");
  EXPECT_EQ(Part(TimePart::kDays, "1970-01-02T12:00:00Z"), "1.5");
  EXPECT_EQ(Part(TimePart::kDays, "2013-01-31"), "15736");
}

TEST(TimeParts, OfTimesBefore1970AreThoseOfTheirDay) {
  EXPECT_EQ(Part(TimePart::kHour, "1969-12-31T22:30:00"), "22");
  EXPECT_EQ(Part(TimePart::kWeekday, "1969-12-31T22:30:00"), "3");
  EXPECT_EQ(Part(TimePart::kMonth, "1969-12-31T22:30:00"), "12");
  EXPECT_EQ(Part(TimePart::kDays, "1969-12-31T12:00:00Z"), "-0.5");
}

TEST(TimeParts, TheClockIsTheOneOnTheWallAndTheDaysAreThoseOfTheMoment) {
  EXPECT_EQ(Part(TimePart::kHour, "2013-01-01T01:00:00+02:00"), "1");
  EXPECT_EQ(Part(TimePart::kMonth, "2013-01-01T01:00:00+02:00"), "1");
  EXPECT_EQ(Part(TimePart::kHour, "2013-01-01 10:30-05"), "10");
  EXPECT_EQ(Part(TimePart::kDays, "1970-01-01T02:00:00+02:00"), "0");
}

TEST(TimeParts, NumbersAreSecondsOrMilliseconds) {
  EXPECT_EQ(Part(TimePart::kHour, "1357034400"), "10");  // 2013-01-01T10:00:00Z
  EXPECT_EQ(Part(TimePart::kMonth, "1357034400000"), "1");
}

TEST(TimeParts, AreCalledByTheirColumn) {
  const std::vector<std::string> times = {"at", "at.hour"};
  EXPECT_EQ(NameOfTimePart("at", TimePart::kDays), "at.days");
  EXPECT_EQ(FindTimePart(times, "at.weekday")->part, TimePart::kWeekday);
  EXPECT_EQ(FindTimePart(times, "at.hour.month")->column, 1u);
  for (const char* name : {"at", "at.", "at.year", "at.hours", "bt.hour", ".hour"}) {
    EXPECT_FALSE(FindTimePart(times, name).has_value()) << name;
  }
}

}  // namespace
}  // namespace millrace
