// The hashed features and ids of a batch, as a small feature space of their own. Internal to
// models/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "models/model.h"

namespace millrace {

// What the rows name, numbered from `first` on.
struct FeatureNumbers {
  std::vector<size_t> from;      // of each one: its place among the ids, or itself
  std::vector<uint32_t> places;  // the numbers of all that the rows name, one row after the other
};

// Which embedding rows a row names: its hashed features, the values of its id columns, or both, the
// features first.
struct NamedRows {
  bool features = false;
  bool ids = false;
};

// In the order of the ids; `from` is the place among `ids`. REQUIRES ascending, distinct ids, which
// have all that the rows name.
FeatureNumbers NumberRows(RowsView rows, NamedRows named, std::span<const EmbeddingId> ids,
                          size_t first);
// Of the hashed features, in the order in which the rows name them first; `from` is the feature.
FeatureNumbers NumberFeatures(RowsView rows, size_t first);

}  // namespace millrace
