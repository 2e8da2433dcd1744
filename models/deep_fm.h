// A factorization machine with a network beside it, on the same embedding rows.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "models/factorization_machine.h"
#include "models/network.h"

namespace millrace {

// Guo et al., "DeepFM: a factorization-machine based neural network for CTR prediction" (IJCAI
// 2017), equation 1: y = y_FM + y_DNN. y_FM is a FactorizationMachine's. The network's inputs are
// the factors of a row's ids, a field for each id column (a row that names fewer leaves the last
// fields zero), then its scaled numeric columns. Dense parameters: those of the factorization
// machine, then the network's, which are not penalised. Embedding rows are a factorization
// machine's.
class DeepFm final : public Model {
 public:
  struct Shape {
    size_t features = 0;
    size_t numeric = 0;  // of them, the first
    size_t fields = 0;   // id columns
    size_t factors = 0;
    std::vector<size_t> hidden{};  // units of each hidden layer
  };
  // REQUIRES: numeric <= features, fields * factors + numeric > 0, and what Network does of the
  // layers.
  DeepFm(const Shape& shape, const ScoreLoss& loss, float row_l2 = 0);

  size_t parameter_count() const override { return linear_end() + network_.parameter_count(); }
  size_t block_size() const override { return 1; }
  size_t penalised_end() const override { return shape_.features; }
  size_t linear_end() const override { return shape_.features + 1; }
  size_t score_count() const override { return loss_.score_count(); }
  size_t row_width() const override { return 1 + shape_.factors; }
  std::vector<RandomInitRange> random_init_ranges() const override {
    return network_.RandomInitRanges(linear_end());
  }

  // (Class weights make others of the frequencies.)
  bool uses_targets() const override { return loss_.from_frequencies; }
  std::unique_ptr<Model> WithClassWeights(const std::vector<float>& weights) const override;
  BatchLoss Compute(RowsView rows, const Scaler& scaler, std::span<const float> parameters,
                    const EmbeddingBatch& embeddings, GradientSum* gradient,
                    std::span<float> scores) const override;

 private:
  Shape shape_;
  Network network_;
  ScoreLoss loss_;
  float row_l2_;
  std::vector<float> class_weights_;  // empty, or one for each class
};

}  // namespace millrace
