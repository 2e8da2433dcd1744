#include "producer/target_watch.h"

#include <cmath>
#include <limits>

namespace millrace {

std::optional<TargetWatch::Coarse> TargetWatch::Observe(float target) {
  constexpr double kLarge = 1e6;
  if (rows_ == kRows) return std::nullopt;
  if (rows_ == 0) first_ = target;
  const double value = double{target} - first_;
  sum_ += value;
  squares_ += value * value;
  if (++rows_ < kRows) return std::nullopt;
  const auto count = static_cast<double>(rows_);
  Coarse found;
  found.mean = first_ + sum_ / count;
  found.deviation = std::sqrt(std::fmax(squares_ / count - sum_ / count * (sum_ / count), 0));
  const auto size = static_cast<float>(std::abs(found.mean));
  found.step = double{std::nextafter(size, std::numeric_limits<float>::infinity())} - double{size};
  const bool is_coarse = size > kLarge && found.deviation < kSteps * found.step;
  return is_coarse ? std::optional(found) : std::nullopt;
}

}  // namespace millrace
