// A summary as a terminal shows it, for tests.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "watch/summary.h"

namespace millrace {

inline SummaryOptions TableOf(const std::string& job, size_t width) {
  return {.job = job,
          .brokers = "localhost:9092",
          .style = {.color = false, .unicode = true},
          .width = width};
}

inline std::string Text(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace millrace
