// A moment as text.
#pragma once

#include <cstdint>
#include <string>

namespace millrace {

// ISO 8601 in UTC, to the second: "2026-11-26T05:15:52Z". `ms` since 1970; fractions of a second
// are dropped. REQUIRES: the years 1970 to 9999.
std::string UtcTime(int64_t ms);

}  // namespace millrace
