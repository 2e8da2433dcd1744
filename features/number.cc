#include "features/number.h"

#include <charconv>
#include <cmath>
#include <system_error>

#include "absl/strings/numbers.h"

namespace millrace {

std::string_view TrimSpaces(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

NumberKind ParseNumber(std::string_view text, double* value) {
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return NumberKind::kInvalid;
  }
  double parsed = 0;
  const char* end = text.data() + text.size();
  const std::from_chars_result result = std::from_chars(text.data(), end, parsed);
  if (result.ptr != end || result.ec == std::errc::invalid_argument) return NumberKind::kInvalid;
  if (result.ec == std::errc::result_out_of_range) {
    // Too large, or too small; only this reader tells which.
    if (!absl::SimpleAtod({text.data(), text.size()}, &parsed)) return NumberKind::kInvalid;
    if (std::isinf(parsed)) return NumberKind::kTooLarge;
  } else if (!std::isfinite(parsed)) {
    return NumberKind::kInvalid;
  }
  *value = parsed;
  return NumberKind::kNumber;
}

}  // namespace millrace
