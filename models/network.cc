#include "models/network.h"

#include <cmath>

#include "base/check.h"

namespace millrace {

Network::Network(size_t inputs, const std::vector<size_t>& units, size_t outputs)
    : outputs_(outputs) {
  MILLRACE_CHECK(!units.empty() && outputs > 0);
  for (const size_t count : units) {
    MILLRACE_CHECK(count > 0);
    const size_t biases = output_weights_ + inputs * count;
    layers_.push_back({inputs, count, output_weights_, biases});
    output_weights_ = biases + count;
    inputs = count;
  }
}

std::vector<RandomInitRange> Network::RandomInitRanges(uint64_t first) const {
  std::vector<RandomInitRange> ranges;
  for (const Layer& layer : layers_) {
    if (layer.inputs == 0) continue;
    const double limit = std::sqrt(6.0 / static_cast<double>(layer.inputs));
    ranges.push_back({first + layer.weights, first + layer.biases, static_cast<float>(limit)});
  }
  return ranges;
}

}  // namespace millrace
