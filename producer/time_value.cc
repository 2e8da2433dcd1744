#include "producer/time_value.h"

#include <cmath>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/time/time.h"
#include "features/number.h"

namespace millrace {
namespace {

constexpr double kFirstMilliseconds = 1e11;
// Beyond the year 9999 nothing is a time; and microseconds stay far inside 64 bits.
constexpr double kMaxSeconds = 2.6e11;
constexpr std::string_view kDate = "0000-00-00";
constexpr std::string_view kMinute = "0000-00-00T00:00";
constexpr std::string_view kSecond = "0000-00-00T00:00:00";

bool Digit(char c) { return c >= '0' && c <= '9'; }

// Whether `text` begins like `shape`, in which 0 stands for any digit. absl::ParseTime alone would
// also take 2013-1-1, signs and spaces.
bool BeginsLike(std::string_view text, std::string_view shape) {
  if (text.size() < shape.size()) return false;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == '0' ? !Digit(text[i]) : text[i] != shape[i]) return false;
  }
  return text.find_first_of(" \t\n\v\f\r") == std::string_view::npos;
}

std::optional<RecordedTime> ParseIso(std::string_view cell) {
  std::string text = absl::AsciiStrToUpper({cell.data(), cell.size()});
  if (text.size() > kDate.size() && text[kDate.size()] == ' ') text[kDate.size()] = 'T';
  const bool has_seconds = text.size() > kMinute.size() && text[kMinute.size()] == ':';
  const std::string_view shape = text.size() == kDate.size() ? kDate
                                 : has_seconds               ? kSecond
                                                             : kMinute;
  if (!BeginsLike(text, shape)) return std::nullopt;
  for (const char* const format : {"%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M%Ez",
                                   "%Y-%m-%dT%H:%M:%E*S", "%Y-%m-%dT%H:%M:%E*S%Ez"}) {
    absl::Time time;
    if (!absl::ParseTime(format, text, &time, nullptr)) continue;
    return RecordedTime(absl::ToUnixMicros(time));
  }
  return std::nullopt;
}

}  // namespace

std::string TimeText(RecordedTime time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromUnixMicros(time.count()),
                          absl::UTCTimeZone());
}

std::optional<RecordedTime> ParseTime(std::string_view text) {
  double number;
  if (ParseNumber(text, &number) == NumberKind::kNumber) {
    if (std::abs(number) >= kFirstMilliseconds) number /= 1000;
    if (!(std::abs(number) < kMaxSeconds)) return std::nullopt;
    return RecordedTime(std::llround(number * 1e6));
  }
  return ParseIso(text);
}

}  // namespace millrace
