#include "features/time_value.h"

#include <cmath>

#include "absl/time/time.h"
#include "features/number.h"

namespace millrace {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr double kFirstMilliseconds = 1e11;
// Beyond the year 9999 nothing is a time; and microseconds stay far inside 64 bits.
constexpr double kMaxSeconds = 2.6e11;

bool Digit(char c) { return c >= '0' && c <= '9'; }

// Each Take...() takes something from the front of *text, which it shortens, or finds that it is
// not there; *text is then unspecified.

bool TakeOneOf(std::string_view marks, std::string_view* text) {
  if (text->empty() || marks.find(text->front()) == std::string_view::npos) return false;
  text->remove_prefix(1);
  return true;
}

// Of exactly so many digits, and at most so large.
bool TakeNumber(size_t digits, uint32_t most, std::string_view* text, uint32_t* number) {
  if (text->size() < digits) return false;
  *number = 0;
  for (const char c : text->substr(0, digits)) {
    if (!Digit(c)) return false;
    *number = *number * 10 + static_cast<uint32_t>(c - '0');
  }
  text->remove_prefix(digits);
  return *number <= most;
}

// YYYY-MM-DD or DD.MM.YYYY
std::optional<RecordedTime> TakeDate(std::string_view* text) {
  uint32_t year = 0;
  uint32_t month = 0;
  uint32_t day = 0;
  const bool has_points = text->size() > 2 && (*text)[2] == '.';
  const bool found = has_points ? TakeNumber(2, 31, text, &day) && TakeOneOf(".", text) &&
                                      TakeNumber(2, 12, text, &month) && TakeOneOf(".", text) &&
                                      TakeNumber(4, 9999, text, &year)
                                : TakeNumber(4, 9999, text, &year) && TakeOneOf("-", text) &&
                                      TakeNumber(2, 12, text, &month) && TakeOneOf("-", text) &&
                                      TakeNumber(2, 31, text, &day);
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(year)),
                                         std::chrono::month(month), std::chrono::day(day)};
  if (!found || !date.ok()) return std::nullopt;
  return std::chrono::sys_days(date).time_since_epoch();
}

// Digits, of which those beyond microseconds do not count.
std::optional<RecordedTime> TakeFraction(std::string_view* text) {
  if (text->empty() || !Digit(text->front())) return std::nullopt;
  int64_t micros = 0;
  for (int64_t unit = 100'000; !text->empty() && Digit(text->front()); unit /= 10) {
    micros += unit * (text->front() - '0');
    text->remove_prefix(1);
  }
  return RecordedTime(micros);
}

// HH:MM[:SS[.fraction]]; a second may be a leap second.
std::optional<RecordedTime> TakeClock(std::string_view* text) {
  uint32_t hour = 0;
  uint32_t minute = 0;
  uint32_t second = 0;
  const bool found =
      TakeNumber(2, 23, text, &hour) && TakeOneOf(":", text) && TakeNumber(2, 59, text, &minute);
  if (!found) return std::nullopt;
  RecordedTime time = hours(hour) + minutes(minute);
  if (!TakeOneOf(":", text)) return time;
  if (!TakeNumber(2, 60, text, &second)) return std::nullopt;
  time += seconds(second);
  if (!TakeOneOf(".", text)) return time;
  const std::optional<RecordedTime> fraction = TakeFraction(text);
  if (!fraction) return std::nullopt;
  return time + *fraction;
}

// Z, +HH:MM, +HHMM or +HH: how far the clock is ahead.
std::optional<minutes> TakeZone(std::string_view* text) {
  if (TakeOneOf("Zz", text)) return minutes(0);
  const bool is_behind = text->starts_with('-');
  uint32_t hour = 0;
  uint32_t minute = 0;
  if (!TakeOneOf("+-", text) || !TakeNumber(2, 23, text, &hour)) return std::nullopt;
  if (!text->empty()) {
    (void)TakeOneOf(":", text);
    if (!TakeNumber(2, 59, text, &minute)) return std::nullopt;
  }
  const minutes ahead = hours(hour) + minutes(minute);
  return is_behind ? -ahead : ahead;
}

// (By hand: absl::ParseTime allocates, takes ten times as long, and also reads 2013-1-1 and
// spaces.)
std::optional<WallTime> ParseDateAndTime(std::string_view text) {
  const std::optional<RecordedTime> date = TakeDate(&text);
  if (!date) return std::nullopt;
  if (text.empty()) return WallTime{*date, *date};
  if (!TakeOneOf("Tt ", &text)) return std::nullopt;
  const std::optional<RecordedTime> clock = TakeClock(&text);
  if (!clock) return std::nullopt;
  const RecordedTime wall = *date + *clock;
  if (text.empty()) return WallTime{wall, wall};
  const std::optional<minutes> zone = TakeZone(&text);
  if (!zone || !text.empty()) return std::nullopt;
  return WallTime{wall - *zone, wall};
}

}  // namespace

std::string TimeText(RecordedTime time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromUnixMicros(time.count()),
                          absl::UTCTimeZone());
}

std::optional<WallTime> ParseWallTime(std::string_view text) {
  double number;
  if (ParseNumber(text, &number) == NumberKind::kNumber) {
    if (std::abs(number) >= kFirstMilliseconds) number /= 1000;
    if (!(std::abs(number) < kMaxSeconds)) return std::nullopt;
    const RecordedTime time(std::llround(number * 1e6));
    return WallTime{time, time};
  }
  return ParseDateAndTime(text);
}

std::optional<RecordedTime> ParseTime(std::string_view text) {
  const std::optional<WallTime> parsed = ParseWallTime(text);
  if (!parsed) return std::nullopt;
  return parsed->time;
}

}  // namespace millrace
