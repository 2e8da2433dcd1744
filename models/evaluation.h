// Sums from which every figure of merit follows, and the figures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "models/model.h"

namespace millrace {

// Additive, so that it can travel with gradients and be counted once. Ordered maps: the sums are
// iterated into checkpoints, which must be the same bytes everywhere.
struct EvaluationSums {
  static constexpr uint32_t kScoreBins = 4096;  // of P(class 1), equal widths; two classes only

  uint64_t rows = 0;
  double log_loss = 0;                      // summed, natural logarithm, probability >= 1e-15
  std::map<uint32_t, uint64_t> cells;       // confusion: label * classes + predicted -> rows
  std::map<uint32_t, uint64_t> score_bins;  // 2 * bin + label -> rows
  // Of a regression, summed over the rows.
  double squared_error = 0;
  double target = 0;
  double squared_target = 0;

  // Adds one row by its class probabilities (the first largest is the prediction).
  void Add(uint32_t label, std::span<const float> probabilities);
  // Adds one row of a regression. A prediction that is not a number counts as 0.
  void AddTarget(float target, float prediction);
  // One of the two, by a model's scores of the row; `classes` 0: a regression.
  void AddRow(const Row& row, std::span<const float> scores, size_t classes);
  void Merge(const EvaluationSums& other);
  bool operator==(const EvaluationSums&) const = default;
};

// As scikit-learn defines them: F1 of a class without rows and predictions is 0 and counts in the
// macro mean only if the class occurs in labels or predictions; AUC with half credit for ties (of
// the histogram's bins). prior_*: of always answering the class frequencies of these rows.
struct EvaluationFigures {
  uint64_t rows = 0;
  double accuracy = 0;
  double f1_macro = 0;
  double f1_weighted = 0;
  double log_loss = 0;
  std::optional<double> auc;  // two classes, both present
  double prior_accuracy = 0;
  double prior_log_loss = 0;
  // Of a regression, which has none of the above. Root of the mean squared error; prior_rmse: of
  // always answering the mean of these rows.
  std::optional<double> rmse;
  double prior_rmse = 0;
};

// All zero when there are no rows. `classes` 0: of a regression.
EvaluationFigures ComputeFigures(const EvaluationSums& sums, size_t classes);

}  // namespace millrace
