// The values of an embedding row that no update has changed yet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/hash.h"
#include "base/types.h"

namespace millrace {

// Draws them evenly from [-limit, limit), by a limit for each: a pure function of (seed, table,
// id). REQUIRES: as many limits as values.
inline void DrawInitialValues(uint64_t seed, uint32_t table, EmbeddingId id,
                              std::span<const float> limits, std::span<float> values) {
  const uint64_t row = Mix64(Mix64(seed + table) ^ id);
  for (size_t column = 0; column < values.size(); ++column) {
    // (Not -0, where the limit is 0.)
    values[column] = limits[column] * EvenlyFrom(Mix64(row + column)) + 0.0f;
  }
}

}  // namespace millrace
