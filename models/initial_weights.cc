#include "models/initial_weights.h"

#include <algorithm>

#include "base/check.h"
#include "base/hash.h"

namespace millrace {

std::vector<float> InitialWeights(std::span<const RandomInitRange> random, uint64_t seed,
                                  KeyRange range) {
  MILLRACE_CHECK(range.begin <= range.end);
  std::vector<float> weights(range.size());
  const uint64_t start = Mix64(~seed);  // embedding rows start elsewhere
  for (const RandomInitRange& keys : random) {
    MILLRACE_CHECK(keys.begin <= keys.end && keys.limit >= 0);
    const uint64_t end = std::min(keys.end, range.end);
    for (uint64_t key = std::max(keys.begin, range.begin); key < end; ++key) {
      weights[key - range.begin] = keys.limit * EvenlyFrom(Mix64(start + key));
    }
  }
  return weights;
}

}  // namespace millrace
