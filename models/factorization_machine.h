// Factorization machine: every pair of ids meets, at a price linear in their number.
#pragma once

#include <cstddef>
#include <span>

#include "models/model.h"

namespace millrace {

// The embedding rows that a batch of training rows names.
struct EmbeddingBatch {
  std::span<const EmbeddingId> ids;  // ascending, distinct
  std::span<const float> values;     // ids.size() x the model's row width, row by row
};

// Rendle, "Factorization Machines" (ICDM 2010), equation 1, with the linear rewriting of its lemma
// 3.1, over a training row's ids (each with x = 1); beside them a linear part over its numeric
// columns and hashed features:
//
//   y = bias + sum_f w_f x_f + sum_i w_i + 1/2 sum_k ((sum_i v_ik)^2 - sum_i v_ik^2)
//
// Dense parameters: a weight per feature, then the bias. An embedding row: w_i, then its factors
// v_i1.. With two ids and the squared loss this is biased matrix factorization (Koren, Bell,
// Volinsky, "Matrix Factorization Techniques for Recommender Systems", 2009, equation 4).
// Immutable, may be shared by threads.
class FactorizationMachine {
 public:
  enum class Loss {
    kLog,      // two classes; scores: P(class 0), P(class 1)
    kSquared,  // (y - target)^2 / 2; the score: y
  };

  FactorizationMachine(size_t features, size_t factors, Loss loss);

  size_t parameter_count() const { return features_ + 1; }
  size_t penalised_end() const { return features_; }
  size_t score_count() const { return loss_ == Loss::kLog ? 2 : 1; }
  size_t row_width() const { return 1 + factors_; }

  // As Model::Compute. The gradient with respect to `embeddings` is added to `row_gradient`, which
  // has the shape of its values, unless `gradient` is null. REQUIRES: `embeddings` has every id of
  // the rows.
  BatchLoss Compute(RowsView rows, const Scaler& scaler, std::span<const float> parameters,
                    const EmbeddingBatch& embeddings, GradientSum* gradient,
                    std::span<float> row_gradient, std::span<float> scores) const;

 private:
  size_t features_;
  size_t factors_;
  Loss loss_;
};

}  // namespace millrace
