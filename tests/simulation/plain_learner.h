// The learner of docs/learning.md once more, by other code than models/: in doubles, one weight
// after the other, and nothing that is fast. To check what a worker adds to a round.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/types.h"
#include "models/moments.h"
#include "models/row.h"
#include "tests/simulation/scenario.h"

namespace millrace::simulation {

// A weight's numbers: of seven rates, and the curvature. And the race's losses, one of each racer.
inline constexpr uint64_t kFloatsOfWeight = 8;
inline constexpr uint64_t kRaceLosses = 9;

using RowBlocks = std::map<EmbeddingId, std::vector<float>>;

// All that a worker's change follows from.
struct OnlineBatch {
  const Scenario& scenario;
  const std::vector<Row>& rows;
  const Moments& moments;             // of the rows before the batch
  std::span<const float> parameters;  // before the batch, in the layout of OnlineSoftmax
  const RowBlocks& blocks;            // the same: the embedding rows that the batch names
  uint32_t workers;                   // that learn side by side
};

// What a worker makes of it.
struct OnlineChange {
  std::span<const float> parameters;
  const RowBlocks& blocks;
};

// Empty, or where the change is another than the plain learner's: by more than the rounding of a
// product in floats explains. REQUIRES an online scenario, and rows that are all learnt from.
std::string DifferenceFromPlainLearner(const OnlineBatch& batch, const OnlineChange& change);

}  // namespace millrace::simulation
