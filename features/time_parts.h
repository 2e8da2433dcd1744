// The columns that a column of times stands for: "at.hour", "at.weekday", "at.month" and "at.days"
// of the column "at".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "features/time_value.h"

namespace millrace {

enum class TimePart : uint8_t {
  kHour,     // 0 to 23
  kWeekday,  // 1, Monday, to 7
  kMonth,    // 1 to 12
  kDays,     // since 1970-01-01T00:00:00Z, with a fraction
};
inline constexpr std::array kTimeParts = {TimePart::kHour, TimePart::kWeekday, TimePart::kMonth,
                                          TimePart::kDays};

std::string NameOfTimePart(std::string_view column, TimePart part);

// Which part of which of the columns `times` a name stands for, if any.
struct TimePartName {
  size_t column = 0;  // position in `times`
  TimePart part{};
};
std::optional<TimePartName> FindTimePart(std::span<const std::string> times, std::string_view name);

// The part as a cell, in *room. Hour, weekday and month are those of the clock on the wall; the
// days are those of the moment, whatever the zone.
using TimePartRoom = std::array<char, 32>;
std::string_view WriteTimePart(TimePart part, const WallTime& time, TimePartRoom* room);

}  // namespace millrace
