#include "features/number.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
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

namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Digits, if there are points, of which these stand right: 1.234.567.
bool GroupsAreRight(std::string_view digits) {
  size_t group = 0;  // digits of it
  bool is_first = true;
  for (const char c : digits) {
    if (IsDigit(c)) {
      ++group;
      continue;
    }
    if (c != '.' || (is_first ? group < 1 || group > 3 : group != 3)) return false;
    is_first = false;
    group = 0;
  }
  return group == 3;
}

}  // namespace

NumberKind ParseCommaNumber(std::string_view text, double* value) {
  if (text.find_first_of(",.") == std::string_view::npos) return ParseNumber(text, value);
  const size_t begin = text.starts_with('+') || text.starts_with('-') ? 1 : 0;
  const size_t end = std::min(text.find_first_not_of("0123456789.", begin), text.size());
  const std::string_view whole = text.substr(begin, end - begin);
  std::string_view rest = text.substr(end);
  if (whole.find('.') != std::string_view::npos && !GroupsAreRight(whole)) {
    return NumberKind::kInvalid;
  }
  if (rest.find('.') != std::string_view::npos) return NumberKind::kInvalid;
  std::string number(text.substr(0, end));
  std::erase(number, '.');
  if (rest.starts_with(',')) {
    number.push_back('.');
    rest.remove_prefix(1);
  }
  number += rest;
  return ParseNumber(number, value);
}

}  // namespace millrace
