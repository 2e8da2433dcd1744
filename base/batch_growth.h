// How the batches of a one-pass job grow (docs/learning.md, "Batches that grow").
#pragma once

#include <algorithm>
#include <cstdint>

namespace millrace {

// Rows of a worker's batch that begins at this row of its, where neither the first nor the most
// rows of a batch say otherwise: a thirty-second of the rows before, but no more than 64 until a
// 128th is.
constexpr uint64_t GrownBatchRows(uint64_t begin) {
  return std::max(std::min<uint64_t>(begin / 32, 64), begin / 128);
}

}  // namespace millrace
