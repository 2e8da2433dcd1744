// The lines of a request.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "features/number.h"

namespace millrace {

// Those that are not blank, without their ends, which are a line feed, or a carriage return and
// one.
class BodyLines {
 public:
  // The body outlives it.
  explicit BodyLines(std::string_view body) : left_(body) {}

  // None: all have been read.
  std::optional<std::string_view> Next() {
    while (!left_.empty()) {
      ++number_;
      const size_t end = std::min(left_.find('\n'), left_.size());
      std::string_view line = left_.substr(0, end);
      if (line.ends_with('\r')) line.remove_suffix(1);
      left_.remove_prefix(std::min(end + 1, left_.size()));
      if (!TrimSpaces(line).empty()) return line;
    }
    return std::nullopt;
  }
  // Of the last one, from 1 on; blank lines count.
  uint64_t number() const { return number_; }

 private:
  std::string_view left_;
  uint64_t number_ = 0;
};

}  // namespace millrace
