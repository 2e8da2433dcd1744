// The hashed features of a batch, as a small feature space of their own. Internal to models/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "models/model.h"

namespace millrace {

// The features that the rows name, numbered in their order from `first` on.
struct FeatureNumbers {
  std::vector<size_t> from;      // of each one: its place among the ids, or itself
  std::vector<uint32_t> places;  // the numbers of all rows' features, one row after the other
};

// `from` is the place among `ids`. REQUIRES ascending, distinct ids, which have all of the rows'
// features.
FeatureNumbers NumberFeatures(RowsView rows, std::span<const EmbeddingId> ids, size_t first);
// `from` is the feature.
FeatureNumbers NumberFeatures(RowsView rows, size_t first);

}  // namespace millrace
