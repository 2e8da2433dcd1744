// A few iterations on a worker's own batch, from the server's weights: the update is the change.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/model.h"

namespace millrace {

struct LocalSolverOptions {
  enum class Kind { kLbfgs, kSgd };
  Kind kind = Kind::kLbfgs;
  uint32_t iterations = 2;
  double learning_rate = 0.1;  // kSgd only
  double l2 = 0;               // objective: mean loss + l2 / 2 * |penalised parameters|^2
};

struct LocalChange {
  std::vector<float> change;  // parameter_count() values; all finite
  BatchLoss start;            // the loss at `parameters`
};

// L-BFGS (Nocedal 1980; liblbfgs) or gradient descent on the whole batch. A line search that
// cannot improve gives the change reached so far, at worst zeros; never an error.
LocalChange SolveLocally(const Model& model, RowsView rows, const Scaler& scaler,
                         std::span<const float> parameters, const LocalSolverOptions& options);

}  // namespace millrace
