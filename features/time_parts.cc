#include "features/time_parts.h"

#include <charconv>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace millrace {
namespace {

using std::chrono::days;
using std::chrono::floor;
using std::chrono::hours;
using std::chrono::sys_days;

std::string_view Suffix(TimePart part) {
  switch (part) {
    case TimePart::kHour:
      return ".hour";
    case TimePart::kWeekday:
      return ".weekday";
    case TimePart::kMonth:
      return ".month";
    case TimePart::kDays:
      return ".days";
  }
  MILLRACE_CHECK(false);
}

uint32_t NumberOf(TimePart part, RecordedTime wall) {
  const sys_days day(floor<days>(wall));
  if (part == TimePart::kHour) {
    return static_cast<uint32_t>(floor<hours>(wall - day.time_since_epoch()).count());
  }
  if (part == TimePart::kWeekday) return std::chrono::weekday(day).iso_encoding();
  return static_cast<uint32_t>(std::chrono::year_month_day(day).month());
}

}  // namespace

std::string NameOfTimePart(std::string_view column, TimePart part) {
  return std::string(column) + std::string(Suffix(part));
}

std::optional<TimePartName> FindTimePart(std::span<const std::string> times,
                                         std::string_view name) {
  for (size_t i = 0; i < times.size(); ++i) {
    if (!name.starts_with(times[i])) continue;
    for (const TimePart part : kTimeParts) {
      if (name.substr(times[i].size()) == Suffix(part)) return TimePartName{i, part};
    }
  }
  return std::nullopt;
}

std::string_view WriteTimePart(TimePart part, const WallTime& time, TimePartRoom* room) {
  char* const end = room->data() + room->size();
  std::to_chars_result written{};
  if (part == TimePart::kDays) {
    const std::chrono::duration<double, days::period> since = time.time;
    written = std::to_chars(room->data(), end, since.count());
  } else {
    written = std::to_chars(room->data(), end, NumberOf(part, time.wall));
  }
  MILLRACE_CHECK(written.ec == std::errc());
  return {room->data(), static_cast<size_t>(written.ptr - room->data())};
}

}  // namespace millrace
