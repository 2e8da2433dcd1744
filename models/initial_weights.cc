#include "models/initial_weights.h"

#include <algorithm>

#include "base/hash.h"

namespace millrace {

std::vector<float> WeightsAtBirth(std::span<const DrawnKeys> drawn, uint64_t seed, KeyRange range) {
  std::vector<float> weights(range.size());
  const uint64_t start = Mix64(~seed);  // embedding rows begin elsewhere
  for (const DrawnKeys& keys : drawn) {
    const uint64_t end = std::min(keys.end, range.end);
    for (uint64_t key = std::max(keys.begin, range.begin); key < end; ++key) {
      weights[key - range.begin] = keys.limit * EvenlyFrom(Mix64(start + key));
    }
  }
  return weights;
}

}  // namespace millrace
