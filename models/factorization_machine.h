// Factorization machine: interactions of all pairs of ids, at a cost linear in the number of ids.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "models/model.h"
#include "models/row_loss.h"

namespace millrace {

// Rendle, "Factorization Machines" (ICDM 2010), equation 1, with the linear rewriting of its lemma
// 3.1, over a training row's ids (each with x = 1); beside them a linear part over its numeric
// columns and hashed features:
//
//   y = bias + sum_f w_f x_f + sum_i w_i + 1/2 sum_k ((sum_i v_ik)^2 - sum_i v_ik^2)
//
// Of two classes y is added to the log odds of class 1 by the frequencies so far; of a number it is
// relative to the mean and deviation of the targets so far (ScoreLoss). So small steps are enough.
// Dense parameters: a weight per feature, then the bias. An embedding row: w_i, then its factors
// v_i1.. Each time a training row names an id, `row_l2` times the embedding row is added to its
// gradient (as libFM penalises: the rare are held back less). With two ids and the squared loss
// this is biased matrix factorization (Koren, Bell, Volinsky, "Matrix Factorization Techniques for
// Recommender Systems", 2009, equation 4). Without ids it is a linear model.
class FactorizationMachine final : public Model {
 public:
  struct Shape {
    size_t features = 0;
    size_t factors = 0;
    bool has_ids = true;  // without, there are no embedding rows
  };
  FactorizationMachine(const Shape& shape, const ScoreLoss& loss, float row_l2 = 0);

  size_t parameter_count() const override { return shape_.features + 1; }
  size_t block_size() const override { return 1; }
  size_t penalised_end() const override { return shape_.features; }
  size_t score_count() const override { return loss_.score_count(); }
  size_t row_width() const override { return shape_.has_ids ? 1 + shape_.factors : 0; }

  // (Class weights make others of the frequencies.)
  bool uses_targets() const override { return loss_.from_frequencies; }
  std::unique_ptr<Model> WithClassWeights(const std::vector<float>& weights) const override;
  BatchLoss Compute(RowsView rows, const Scaler& scaler, std::span<const float> parameters,
                    const EmbeddingBatch& embeddings, GradientSum* gradient,
                    std::span<float> scores) const override;

 private:
  Shape shape_;
  ScoreLoss loss_;
  float row_l2_;
  std::vector<float> class_weights_;  // empty, or one for each class
};

}  // namespace millrace
