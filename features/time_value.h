// Times in the cells of a table.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace millrace {

// Since 1970-01-01T00:00:00Z.
using RecordedTime = std::chrono::microseconds;

// Reads a trimmed cell; empty if it is not a time. It accepts
//  - a number: seconds, or milliseconds from 1e11 on (as seconds that would be the year 5138; as
//    milliseconds it is 1973). Fractions count.
//  - YYYY-MM-DD (ISO 8601) or DD.MM.YYYY, then optionally T or a space and HH:MM[:SS[.fraction]],
//    then optionally Z, +HH:MM, +HHMM or +HH. Without a zone it is UTC.
std::optional<RecordedTime> ParseTime(std::string_view text);

// A time, and what the clock on the wall showed then where it was written: the same as `time` but
// for the zone. Without a zone both are the same.
struct WallTime {
  RecordedTime time;
  RecordedTime wall;
};
// As ParseTime().
std::optional<WallTime> ParseWallTime(std::string_view text);

std::string TimeText(RecordedTime time);  // 2013-01-31T10:00:00Z

}  // namespace millrace
