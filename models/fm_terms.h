// The linear part and the pairs of ids: what FactorizationMachine and DeepFm have in common.
// Internal to models/.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "models/model.h"

namespace millrace {

// Intermediate results of a row's score, which its gradient needs.
struct FmRow {
  std::vector<float> numeric;  // scaled
  std::vector<float> sums;     // of the ids' factors
  std::vector<size_t> places;  // of the ids' rows in the batch's values
};

// The terms of one call of Compute, whose arguments outlive it.
class FmTerms {
 public:
  FmTerms(size_t features, size_t factors, float row_l2, const Scaler& scaler,
          std::span<const float> parameters, const EmbeddingBatch& embeddings);

  // bias + the linear part + the pairs; fills `found`.
  float Score(const Row& row, FmRow& found) const;
  // Adds slope * d score / d parameter, and the penalty on the rows that are named.
  void AddGradient(const Row& row, const FmRow& found, float slope, GradientSum& gradient) const;

  // The factors of the row at `place`, and where their gradient is summed up.
  const float* FactorsAt(size_t place) const { return embeddings_.values.data() + place + 1; }
  float* FactorSlopesAt(size_t place) const { return embeddings_.gradient.data() + place + 1; }

 private:
  size_t features_;
  size_t factors_;
  float row_l2_;
  const Scaler& scaler_;
  std::span<const float> parameters_;
  EmbeddingBatch embeddings_;
};

}  // namespace millrace
