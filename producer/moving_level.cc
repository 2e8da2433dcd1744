#include "producer/moving_level.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>

namespace millrace {
namespace {

// Lags of each far distance, weighed as by Bartlett's window, so that no period of up to 40 rows
// decides it; and the first of each.
constexpr size_t kLags = 64;
constexpr size_t kFar[] = {202, 319, 566, 813};
// Four far lags share one near lag, so near lags are 1 to 16.
constexpr size_t kOfNear = 4;
constexpr size_t kFewestRows = 768;
constexpr uint64_t kFewestOfOthers = 200;
constexpr double kMoves = 0.15;

// Twice the mean rank, from 0, of those that are equal, in the place of each value.
void ToRanks(std::vector<std::vector<double>>& streams) {
  std::vector<double*> order;
  for (auto& values : streams) {
    for (double& value : values) order.push_back(&value);
  }
  std::ranges::sort(order, {}, [](const double* value) { return *value; });
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    const double value = *order[begin];
    while (end < order.size() && *order[end] == value) ++end;
    for (size_t i = begin; i < end; ++i) *order[i] = static_cast<double>(begin + end - 1);
  }
}

// Rows that are not of the most frequent class.
uint64_t RowsOfOthers(std::span<const std::vector<float>> streams) {
  std::map<float, uint64_t> counts;
  uint64_t rows = 0;
  uint64_t most = 0;
  for (const auto& labels : streams) {
    rows += labels.size();
    for (const float label : labels) most = std::max(most, ++counts[label]);
  }
  return rows - most;
}

struct Differences {
  double near = 0;
  double far = 0;

  double share() const { return far > 0 ? 1 - near / far : 0; }
};

// Adds those of a stream for a distance whose first lag is `first`.
void AddDifferences(const std::vector<double>& values, bool are_classes, size_t first,
                    Differences& sums) {
  const auto difference = [&](size_t i, size_t k) {
    if (are_classes) return values[i] == values[k] ? 0.0 : 1.0;
    return (values[i] - values[k]) * (values[i] - values[k]);
  };
  for (size_t i = first + kLags - 1; i < values.size(); ++i) {
    for (size_t lag = 0; lag < kLags; ++lag) {
      const auto weight = static_cast<double>(std::min(lag + 1, kLags - lag));
      const size_t before = i - first - lag;
      const size_t near = 1 + lag / kOfNear;
      sums.far += weight * difference(i, before);
      // Of both rows, so that each of them has the same weight.
      sums.near += weight / 2 * (difference(i, i - near) + difference(before, before + near));
    }
  }
}

}  // namespace

std::optional<double> MovingLevel(std::span<const std::vector<float>> streams, bool are_classes) {
  const size_t rows = std::accumulate(
      streams.begin(), streams.end(), size_t{0},
      [](size_t sum, const std::vector<float>& labels) { return sum + labels.size(); });
  if (rows < kFewestRows) return std::nullopt;
  if (are_classes && RowsOfOthers(streams) < kFewestOfOthers) return std::nullopt;
  std::vector<std::vector<double>> values;
  for (const auto& labels : streams) values.emplace_back(labels.begin(), labels.end());
  if (!are_classes) ToRanks(values);
  double most = 0;
  for (const size_t first : kFar) {
    Differences sums;
    for (const auto& of_stream : values) {
      if (of_stream.size() >= 2 * (first + kLags / 2)) {
        AddDifferences(of_stream, are_classes, first, sums);
      }
    }
    most = std::max(most, sums.share());
  }
  return most > kMoves ? std::optional(most) : std::nullopt;
}

}  // namespace millrace
