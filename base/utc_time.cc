#include "base/utc_time.h"

#include <ctime>

#include "base/check.h"

namespace millrace {

std::string UtcTime(int64_t ms) {
  const auto seconds = static_cast<time_t>(ms / 1000);
  std::tm utc = {};
  MILLRACE_CHECK(ms >= 0 && gmtime_r(&seconds, &utc) != nullptr);
  char text[32];
  const size_t size = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return std::string(text, size);
}

}  // namespace millrace
