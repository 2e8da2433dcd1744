#include "producer/moving_level.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace millrace {
namespace {

// Of either kind, weighed as by Bartlett's window, so that no period of up to 40 rows decides it.
constexpr size_t kLags = 64;
constexpr size_t kNear = 33;  // the first of these
constexpr size_t kFar = 481;
constexpr size_t kFewestRows = 768;
constexpr double kMoves = 0.1;

// Twice the mean rank, from 0, of those that are equal.
std::vector<double> RanksOf(const std::vector<float>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) ranks[order[i]] = static_cast<double>(begin + end - 1);
  }
  return ranks;
}

}  // namespace

std::optional<double> MovingLevel(const std::vector<float>& labels, bool are_classes) {
  if (labels.size() < kFewestRows) return std::nullopt;
  const std::vector<double> values =
      are_classes ? std::vector<double>(labels.begin(), labels.end()) : RanksOf(labels);
  const auto difference = [&](size_t i, size_t k) {
    if (are_classes) return values[i] == values[k] ? 0.0 : 1.0;
    return (values[i] - values[k]) * (values[i] - values[k]);
  };
  double far = 0;
  double near = 0;
  for (size_t i = kFar + kLags - 1; i < values.size(); ++i) {
    for (size_t lag = 0; lag < kLags; ++lag) {
      const auto weight = static_cast<double>(std::min(lag + 1, kLags - lag));
      const size_t before = i - kFar - lag;
      far += weight * difference(i, before);
      // Of both rows, so that each of them has the same weight.
      near +=
          weight / 2 * (difference(i, i - kNear - lag) + difference(before, before + kNear + lag));
    }
  }
  if (far == 0) return std::nullopt;
  const double share = 1 - near / far;
  return share > kMoves ? std::optional(share) : std::nullopt;
}

}  // namespace millrace
