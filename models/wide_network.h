// A multilayer perceptron with a linear model beside it, on all kinds of columns.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "models/model.h"
#include "models/network.h"
#include "models/row_loss.h"

namespace millrace {

// Cheng et al., "Wide & Deep Learning for Recommender Systems" (2016): z = W x + b + network(x), a
// z for each class, or one for a regression; TargetScale makes predictions of it. x are the scaled
// numeric columns, the hashed features, and a 1 for each id that the row names. The network's first
// hidden layer has a row of weights for each of them, of which only the named ones are computed (an
// embedding bag). With its output weights and the linear part at zero, a new model predicts what
// is known of the targets: the classes' frequencies, or the mean.
//
// Dense parameters, K = score_count(), U = units of the first hidden layer:
//   W    K of each feature, then b
//   bag  U of each hashed feature
//   the network on the numeric columns (Network)
// The weights of an id are an embedding row: K, then U. So are those of the hashed features of a
// wide model, whose dense parameters lack them; a feature's row has its index as the id.
class WideNetwork final : public Model {
 public:
  struct Shape {
    size_t features = 0;  // numeric and hashed
    size_t numeric = 0;   // of them, the first
    size_t classes = 0;   // 2 or more; 0: a regression
    bool wide = false;
    bool has_ids = false;
    std::vector<size_t> hidden{};  // units of each hidden layer
    float initial_limit = 0;       // of the weights of the bag
  };
  // `loss`: of a regression. `class_weights` is empty or has a factor for the loss of each class's
  // rows. REQUIRES: numeric <= features, classes is not 1, and what Network does of the layers.
  explicit WideNetwork(const Shape& shape, const ScoreLoss& loss = {},
                       std::vector<float> class_weights = {});

  size_t parameter_count() const override { return NetworkKey() + network_.parameter_count(); }
  size_t block_size() const override { return 1; }
  size_t penalised_end() const override { return DenseFeatures() * outputs(); }
  size_t linear_end() const override { return (DenseFeatures() + 1) * outputs(); }
  size_t score_count() const override { return outputs(); }
  size_t row_width() const override {
    return shape_.wide || shape_.has_ids ? outputs() + units() : 0;
  }
  size_t row_linear_end() const override { return outputs(); }
  const WideNetwork* network() const override { return this; }
  void AppendIds(const Row& row, std::vector<EmbeddingId>& ids) const override;
  std::vector<RandomInitRange> random_init_ranges() const override;

  bool uses_targets() const override { return loss_.from_frequencies; }
  // For weights that change from batch to batch (ClassBalance). At zero this model predicts all
  // classes alike, not by their frequencies: frequencies times such weights are all the same, but
  // for what the weights know of the labels that are to be predicted.
  std::unique_ptr<Model> WithClassWeights(const std::vector<float>& weights) const override;
  BatchLoss Compute(RowsView rows, const Scaler& scaler, std::span<const float> parameters,
                    const EmbeddingBatch& embeddings, GradientSum* gradient,
                    std::span<float> scores) const override;

  // The parameters of the same model that is not wide. `rows`: the embedding rows of all hashed
  // features, of a wide one.
  std::vector<float> NarrowParameters(std::span<const float> parameters,
                                      std::span<const float> rows) const;

 private:
  class Computation;

  size_t outputs() const { return network_.outputs(); }
  size_t units() const { return network_.layers().front().units; }
  size_t hashed() const { return shape_.features - shape_.numeric; }
  size_t DenseFeatures() const { return shape_.wide ? shape_.numeric : shape_.features; }
  size_t BagKey() const { return linear_end(); }
  size_t NetworkKey() const { return BagKey() + (shape_.wide ? 0 : hashed() * units()); }

  Shape shape_;
  ScoreLoss loss_;
  std::vector<float> class_weights_;  // empty, or one for each class
  Network network_;
};

}  // namespace millrace
