// The model of a trainer of one's own: parameters, of which Millrace does not know what they mean.
#pragma once

#include <cstddef>

#include "base/check.h"
#include "models/model.h"

namespace millrace {

// Has no scores and no gradient: who computes these refuses such jobs (CheckLearnsRows).
class ExternalModel final : public Model {
 public:
  // `row_width`: of the widest table; 0: there are none.
  explicit ExternalModel(size_t parameters, size_t row_width = 0)
      : parameters_(parameters), row_width_(row_width) {}

  size_t parameter_count() const override { return parameters_; }
  size_t block_size() const override { return 1; }
  size_t row_width() const override { return row_width_; }
  size_t penalised_end() const override { return parameters_; }
  size_t score_count() const override { return 1; }
  using Model::Compute;
  BatchLoss Compute(RowsView /*rows*/, const Scaler& /*scaler*/,
                    std::span<const float> /*parameters*/, const EmbeddingBatch& /*embeddings*/,
                    GradientSum* /*gradient*/, std::span<float> /*scores*/) const override {
    MILLRACE_CHECK(false);
  }

 private:
  size_t parameters_;
  size_t row_width_;
};

}  // namespace millrace
