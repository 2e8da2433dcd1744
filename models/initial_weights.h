// The parameters of a model before its first training step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "models/model.h"

namespace millrace {

// Returns the initial parameters of the keys in `range`: random within `random`
// (Model::random_init_ranges), zero elsewhere. A value depends on its key and the seed only, so
// that every shard and every copy of it starts with the same, however many shards there are.
std::vector<float> InitialWeights(std::span<const RandomInitRange> random, uint64_t seed,
                                  KeyRange range);

}  // namespace millrace
