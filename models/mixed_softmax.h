// Multinomial logistic regression, or linear regression, by the weights that the racers of an
// OnlineSoftmax predict by together: what is evaluated and exported of an online learner.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "models/model.h"
#include "models/online_softmax.h"

namespace millrace {

// With K = score_count(): dense parameters are K for each feature, then K for the bias
// (OnlineSoftmax::MixedParameters); a wide one has the numeric columns and the bias only. An
// embedding row, of a hashed feature or of an id, has K (OnlineSoftmax::MixBlocks). Weights are
// added in the order bias, numeric columns, hashed features, ids, so a row's scores are the same
// bytes whatever the rows beside it, wide or not. A feature counts as one of at most +-10^6, as in
// training. A regression estimates the mean of the targets plus the sum; 0 if no target is known.
// It cannot be trained: it has no gradient.
class MixedSoftmax final : public Model {
 public:
  explicit MixedSoftmax(const OnlineSoftmax::Shape& shape);

  size_t parameter_count() const override { return (DenseFeatures() + 1) * score_count(); }
  size_t block_size() const override { return score_count(); }
  size_t penalised_end() const override { return 0; }
  size_t score_count() const override { return columns_; }
  size_t row_width() const override { return shape_.wide || shape_.ids ? columns_ : 0; }
  size_t row_linear_end() const override { return row_width(); }
  void AppendIds(const Row& row, std::vector<EmbeddingId>& ids) const override;

  // REQUIRES: no gradient is wanted.
  BatchLoss Compute(RowsView rows, const Scaler& scaler, std::span<const float> parameters,
                    const EmbeddingBatch& embeddings, GradientSum* gradient,
                    std::span<float> scores) const override;

 private:
  size_t DenseFeatures() const { return shape_.wide ? shape_.numeric : shape_.features; }
  // The weighted sums of a row, into `sums` (score_count()).
  void AddUp(const Row& row, std::span<const float> numeric, std::span<const float> parameters,
             const EmbeddingBatch& embeddings, std::span<float> sums) const;

  const OnlineSoftmax::Shape shape_;
  const size_t columns_;
};

}  // namespace millrace
