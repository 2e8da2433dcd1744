// Multinomial logistic regression on sparse and dense rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "models/model.h"

namespace millrace {

// Parameter (feature f, class k) has key f * classes + k; feature `features` is the bias, so the
// model has (features + 1) * classes parameters. P(k | x) = softmax_k(W^T x + b)
// (Bishop, Pattern Recognition and Machine Learning, 4.3.4). `class_weights` is empty or has one
// factor per class.
class SoftmaxRegression final : public Model {
 public:
  SoftmaxRegression(size_t features, size_t classes, std::vector<float> class_weights = {});

  size_t parameter_count() const override { return (features_ + 1) * classes_; }
  size_t block_size() const override { return classes_; }
  size_t penalised_end() const override { return features_ * classes_; }
  size_t score_count() const override { return classes_; }
  std::unique_ptr<Model> WithClassWeights(const std::vector<float>& weights) const override;
  using Model::Compute;
  BatchLoss Compute(RowsView rows, const Scaler& scaler, std::span<const float> parameters,
                    const EmbeddingBatch& embeddings, GradientSum* gradient,
                    std::span<float> scores) const override;

 private:
  size_t features_;
  size_t classes_;
  std::vector<float> class_weights_;
};

}  // namespace millrace
