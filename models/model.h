// What a worker and an evaluator need of a model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "models/gradient_sum.h"
#include "models/moments.h"
#include "models/row.h"

namespace millrace {

// A batch is a view of rows that the caller owns.
using RowsView = std::span<const Row* const>;

// The embedding rows that a batch names.
struct EmbeddingBatch {
  std::span<const EmbeddingId> ids{};  // ascending, distinct
  std::span<const float> values{};     // ids.size() x the model's row width, row by row
  std::span<float> gradient{};         // of the shape of `values`; empty when there is no gradient
};

// The parameters of the keys [begin, end) start at random, evenly distributed in [-limit, limit].
struct RandomInitRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  float limit = 0;
};

struct BatchLoss {
  double loss_sum = 0;    // of row weight * log loss
  double weight_sum = 0;  // of row weights; the mean loss is loss_sum / weight_sum
};

class OnlineSoftmax;
class WideNetwork;

// A model is stateless: parameters come from outside as one vector of parameter_count() floats.
// Implementations are immutable and may be shared by threads.
class Model {
 public:
  virtual ~Model() = default;

  virtual size_t parameter_count() const = 0;
  // Parameters come in blocks of this size (all classes of one feature).
  virtual size_t block_size() const = 0;
  // Parameters from this key on are not penalised by L2 (the bias).
  virtual size_t penalised_end() const = 0;
  // Parameters from this key on are not of a linear model (a network's).
  virtual size_t linear_end() const { return parameter_count(); }
  // The parameters that do not start at zero (models/initial_weights.h).
  virtual std::vector<RandomInitRange> random_init_ranges() const { return {}; }
  // How many scores a row gets: its class probabilities, or one number.
  virtual size_t score_count() const = 0;
  // Floats of an embedding row; 0: the model has none.
  virtual size_t row_width() const { return 0; }
  // So many of them, from the first on, are weights of a linear model.
  virtual size_t row_linear_end() const { return 1; }
  // Appends the ids of the embedding rows that a training row names.
  virtual void AppendIds(const Row& row, std::vector<EmbeddingId>& ids) const {
    ids.insert(ids.end(), row.ids.begin(), row.ids.end());
  }

  // Whether scores are relative to what is known before the rows: to the mean of the targets
  // (Scaler::target), or to the log frequencies of the classes (Scaler::class_rows).
  virtual bool uses_targets() const { return false; }
  // This model, if it learns row by row; else null, and it has gradients.
  virtual const OnlineSoftmax* online() const { return nullptr; }
  // This model, if it is a WideNetwork; else null.
  virtual const WideNetwork* network() const { return nullptr; }

  // The same model with these factors on the loss of each class's rows, instead of its own; null
  // if it tells no classes apart.
  virtual std::unique_ptr<Model> WithClassWeights(const std::vector<float>& /*weights*/) const {
    return nullptr;
  }

  // Computes each row's scores into `scores` (rows x score_count, row-major; may be empty) and
  // adds the gradient of loss_sum with respect to the parameters to `gradient` (may be null), and
  // to embeddings.gradient that with respect to the embedding rows. The rows are visited in order,
  // so that the same input gives the same bytes. REQUIRES: `embeddings` has every id of the rows.
  virtual BatchLoss Compute(RowsView rows, const Scaler& scaler, std::span<const float> parameters,
                            const EmbeddingBatch& embeddings, GradientSum* gradient,
                            std::span<float> scores) const = 0;
  // Of a model without embedding rows.
  BatchLoss Compute(RowsView rows, const Scaler& scaler, std::span<const float> parameters,
                    GradientSum* gradient, std::span<float> scores) const {
    return Compute(rows, scaler, parameters, {}, gradient, scores);
  }
};

}  // namespace millrace
