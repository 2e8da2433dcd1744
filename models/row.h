// One training row in the form that models compute on.
#pragma once

#include <cstdint>
#include <vector>

#include "base/types.h"

namespace millrace {

// A row of a job with N numeric columns and H hashed features. In the model's feature space the
// numeric columns are features [0, N), the hashed ones [N, N + H), and the bias is feature N + H.
struct Row {
  uint32_t label = 0;              // class id, an index into the job's classes
  std::vector<double> numeric;     // N values as in the file, unscaled; NaN where missing
  std::vector<uint32_t> index;     // hashed features, ascending and distinct, each in [N, N + H)
  std::vector<float> value;        // one per index, finite
  bool replayed = false;           // of a later epoch: the job has had this row before
  std::vector<EmbeddingId> ids{};  // of embedding rows, one per id column, in the job's order
  float target = 0;                // of a regression, instead of the label

  bool operator==(const Row&) const = default;
};

}  // namespace millrace
