// Notices targets of a regression whose differences a float rounds away. Pure.
#pragma once

#include <cstdint>
#include <optional>

namespace millrace {

// A row keeps its target as a float (Row::target), which has 24 bits: of targets near 10^9 two
// neighbours are 64 apart. Where their deviation is not some times as much, what tells them apart
// is lost, and a model that answers the mean seems to be right.
class TargetWatch {
 public:
  static constexpr uint64_t kRows = 1000;  // fewer tell nothing
  static constexpr double kSteps = 20;

  struct Coarse {
    double mean = 0;
    double deviation = 0;
    double step = 0;  // from a float near the mean to the next one
  };
  // With the kRows-th target, if the deviation of these is below kSteps steps, and the mean beyond
  // 10^6 (a smaller constant is one).
  std::optional<Coarse> Observe(float target);

 private:
  uint64_t rows_ = 0;
  double first_ = 0;
  double sum_ = 0;  // relative to the first one, as the squares
  double squares_ = 0;
};

}  // namespace millrace
