#include "features/time_value.h"

#include <cmath>
#include <string>
#include <utility>

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

std::optional<RecordedTime> ParseAs(const char* format, const std::string& text) {
  absl::Time time;
  if (!absl::ParseTime(format, text, &time, nullptr)) return std::nullopt;
  return RecordedTime(absl::ToUnixMicros(time));
}

std::optional<WallTime> ParseIso(std::string_view cell) {
  std::string text = absl::AsciiStrToUpper({cell.data(), cell.size()});
  if (text.size() > kDate.size() && text[kDate.size()] == ' ') text[kDate.size()] = 'T';
  const bool has_seconds = text.size() > kMinute.size() && text[kMinute.size()] == ':';
  const std::string_view shape = text.size() == kDate.size() ? kDate
                                 : has_seconds               ? kSecond
                                                             : kMinute;
  if (!BeginsLike(text, shape)) return std::nullopt;
  for (const char* const format : {"%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%E*S"}) {
    if (const auto time = ParseAs(format, text)) return WallTime{*time, *time};
  }
  const size_t zone = text.find_first_of("Z+-", kDate.size());
  if (zone == std::string::npos) return std::nullopt;
  for (const auto& [with_zone, without] :
       {std::pair("%Y-%m-%dT%H:%M%Ez", "%Y-%m-%dT%H:%M"),
        std::pair("%Y-%m-%dT%H:%M:%E*S%Ez", "%Y-%m-%dT%H:%M:%E*S")}) {
    const auto time = ParseAs(with_zone, text);
    if (!time) continue;
    const auto wall = ParseAs(without, text.substr(0, zone));
    if (wall) return WallTime{*time, *wall};
  }
  return std::nullopt;
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
  return ParseIso(text);
}

std::optional<RecordedTime> ParseTime(std::string_view text) {
  const std::optional<WallTime> parsed = ParseWallTime(text);
  if (!parsed) return std::nullopt;
  return parsed->time;
}

}  // namespace millrace
