// Multinomial logistic regression on a feature space too wide to be sent whole.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "models/model.h"

namespace millrace {

// The model of SoftmaxRegression, whose hashed features' weights are embedding rows: a row has the
// weights of one feature, one for each class, and its id is the feature's index. A feature that no
// update has named has the weights 0. Dense parameters: a block for each numeric column, then the
// bias. The same batch and weights give the same bytes as SoftmaxRegression.
class WideSoftmax final : public Model {
 public:
  WideSoftmax(size_t numeric, size_t features, size_t classes,
              std::vector<float> class_weights = {});

  size_t parameter_count() const override { return (numeric_ + 1) * classes_; }
  size_t block_size() const override { return classes_; }
  size_t penalised_end() const override { return numeric_ * classes_; }
  size_t score_count() const override { return classes_; }
  size_t row_width() const override { return classes_; }
  size_t row_linear_end() const override { return classes_; }
  void AppendIds(const Row& row, std::vector<EmbeddingId>& ids) const override;

  std::unique_ptr<Model> WithClassWeights(const std::vector<float>& weights) const override;
  BatchLoss Compute(RowsView rows, const Scaler& scaler, std::span<const float> parameters,
                    const EmbeddingBatch& embeddings, GradientSum* gradient,
                    std::span<float> scores) const override;

 private:
  size_t numeric_;
  size_t features_;  // numeric and hashed
  size_t classes_;
  std::vector<float> class_weights_;
};

}  // namespace millrace
