// What a model's parameters are before anything has been learnt.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "models/model.h"

namespace millrace {

// Those of the keys in `range`: zero, or drawn (Model::drawn). A key's value is a function of it
// and of the seed alone, so that every shard and every copy of it begin alike, however many shards
// there are.
std::vector<float> WeightsAtBirth(std::span<const DrawnKeys> drawn, uint64_t seed, KeyRange range);

}  // namespace millrace
