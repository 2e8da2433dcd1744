// Scores of a second model, the challenger, in the terms of the model that it is compared with.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "exports/model_scorer.h"
#include "predictor/row_scorer.h"

namespace millrace {

// Not thread-safe; to make one is dear, as is its RowScorer.
class ChallengerScorer {
 public:
  // FailedPrecondition, with what is different: the two do not predict the same label, by the same
  // classes, in whatever order, or as a number.
  static StatusOr<ChallengerScorer> Create(const ModelScorer& model,
                                           std::shared_ptr<const ModelScorer> challenger);

  // Takes the challenger's rows.
  RowScorer& rows() { return rows_; }
  const RowScorer& rows() const { return rows_; }

  // The scores of all rows(), row by row, as many of each as the model gives: of a classification
  // in the order of its classes. Valid until the next call.
  std::span<const float> Score();

 private:
  ChallengerScorer(RowScorer rows, std::vector<size_t> order)
      : rows_(std::move(rows)), order_(std::move(order)) {}

  RowScorer rows_;
  std::vector<size_t> order_;  // of each score of the model, which of the challenger's it is
  std::vector<float> scores_;  // scratch
};

}  // namespace millrace
