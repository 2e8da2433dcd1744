// What the programs print that measure how long something takes.
#pragma once

#include <algorithm>
#include <cstdio>
#include <vector>

namespace millrace {

// A line that the driver waits for.
inline void SayNow(const char* line) {
  std::printf("%s\n", line);
  std::fflush(stdout);
}

// "count 1600 p50 1.250 p99 3.100 p99.9 7.800"; of none all are 0.
inline void PrintPercentiles(std::vector<double> ms) {
  std::ranges::sort(ms);
  const auto at = [&ms](double part) {
    return ms.empty() ? 0.0 : ms[static_cast<size_t>(part * static_cast<double>(ms.size() - 1))];
  };
  std::printf("count %zu p50 %.3f p99 %.3f p99.9 %.3f\n", ms.size(), at(0.5), at(0.99), at(0.999));
}

}  // namespace millrace
