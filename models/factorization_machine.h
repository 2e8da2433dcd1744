// Factorization machine: interactions of all pairs of ids, at a cost linear in the number of ids.
#pragma once

#include <cstddef>
#include <span>

#include "models/model.h"

namespace millrace {

// Rendle, "Factorization Machines" (ICDM 2010), equation 1, with the linear rewriting of its lemma
// 3.1, over a training row's ids (each with x = 1); beside them a linear part over its numeric
// columns and hashed features:
//
//   y = offset + bias + sum_f w_f x_f + sum_i w_i + 1/2 sum_k ((sum_i v_ik)^2 - sum_i v_ik^2)
//
// The offset is known beforehand: about the mean of what is to be estimated, which would be long
// in coming otherwise. Dense parameters: a weight per feature, then the bias. An embedding row:
// w_i, then its factors v_i1.. Each time a training row names an id, `row_l2` times the embedding
// row is added to its gradient (as libFM penalises: the rare are held back less). With two ids and
// the squared loss this is biased matrix factorization (Koren, Bell, Volinsky, "Matrix
// Factorization Techniques for Recommender Systems", 2009, equation 4).
class FactorizationMachine final : public Model {
 public:
  enum class Loss {
    kLog,      // two classes; scores: P(class 0), P(class 1)
    kSquared,  // (y - target)^2 / 2; the score: y
  };

  FactorizationMachine(size_t features, size_t factors, Loss loss, float row_l2 = 0,
                       float offset = 0);

  size_t parameter_count() const override { return features_ + 1; }
  size_t block_size() const override { return 1; }
  size_t penalised_end() const override { return features_; }
  size_t score_count() const override { return loss_ == Loss::kLog ? 2 : 1; }
  size_t row_width() const override { return 1 + factors_; }

  BatchLoss Compute(RowsView rows, const Scaler& scaler, std::span<const float> parameters,
                    const EmbeddingBatch& embeddings, GradientSum* gradient,
                    std::span<float> scores) const override;

 private:
  size_t features_;
  size_t factors_;
  Loss loss_;
  float row_l2_;
  float offset_;
};

}  // namespace millrace
