// Sums from which every figure of merit follows, and the figures.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "models/model.h"

namespace millrace {

// Additive, so that it can travel with gradients and be counted once. Ordered maps: the sums are
// iterated into checkpoints, which must be the same bytes everywhere.
struct EvaluationSums {
  static constexpr uint32_t kScoreBins = 4096;  // of P(class 1), equal widths; two classes only
  // Of the prediction's probability, equal widths (Guo et al. 2017, "On Calibration of Modern
  // Neural Networks").
  static constexpr uint32_t kCalibrationBins = 15;
  // Probabilities are summed as whole parts of this fineness, so that the order of the rows makes
  // no difference; what a row loses is less than a millionth.
  static constexpr uint64_t kConfidenceUnits = uint64_t{1} << 20;

  // The rows whose prediction has a probability in one bin.
  struct CalibrationBin {
    uint64_t rows = 0;
    uint64_t correct = 0;
    uint64_t confidence = 0;  // the predictions' probabilities, in kConfidenceUnits
    bool operator==(const CalibrationBin&) const = default;
  };

  uint64_t rows = 0;
  double log_loss = 0;                      // summed, natural logarithm, probability >= 1e-15
  std::map<uint32_t, uint64_t> cells;       // confusion: label * classes + predicted -> rows
  std::map<uint32_t, uint64_t> score_bins;  // 2 * bin + label -> rows
  std::array<CalibrationBin, kCalibrationBins> calibration{};
  // Of a regression, summed over the rows.
  double squared_error = 0;
  double target = 0;
  double squared_target = 0;
  double absolute_error = 0;
  // Of so many of the rows: all, unless some were counted by a version that did not sum it (that
  // did not sum `calibration` either, where the bins' rows tell the same).
  uint64_t absolute_rows = 0;
  // Of a regression: rows that came before any target was known. They have no prediction and no
  // part in the sums.
  uint64_t unpredicted = 0;

  // Adds one row by its class probabilities (the first largest is the prediction).
  void Add(uint32_t label, std::span<const float> probabilities);
  // Adds one row of a regression. A prediction that is not a number counts as 0.
  void AddTarget(float target, float prediction);
  void AddUnpredicted() { ++rows, ++unpredicted; }
  // One of the two, by a model's scores of the row; `classes` 0: a regression.
  void AddRow(const Row& row, std::span<const float> scores, size_t classes);
  void Merge(const EvaluationSums& other);
  bool operator==(const EvaluationSums&) const = default;
};

// As scikit-learn defines them: F1 of a class without rows and predictions is 0 and counts in the
// macro mean only if the class occurs in labels or predictions; AUC with half credit for ties (of
// the histogram's bins). prior_*: of always answering the class frequencies of these rows.
struct EvaluationFigures {
  // Of which follow a class's precision (correct / predicted), recall (correct / labelled) and F1.
  struct ClassRows {
    uint64_t labelled = 0;
    uint64_t predicted = 0;
    uint64_t correct = 0;
  };
  // The rows whose prediction has a probability in [bin, bin + 1) / kCalibrationBins.
  struct ReliabilityBin {
    uint32_t bin = 0;
    uint64_t rows = 0;
    double confidence = 0;  // the mean of the predictions' probabilities
    double accuracy = 0;    // the part of the predictions that is right
  };

  uint64_t rows = 0;
  double accuracy = 0;
  double f1_macro = 0;
  double f1_weighted = 0;
  double log_loss = 0;
  std::optional<double> auc;  // two classes, both present
  // The area under precision over recall of class 1 as scikit-learn's average precision has it, the
  // scores rounded to the histogram's kScoreBins; prior_pr_auc: the frequency of class 1.
  std::optional<double> pr_auc;  // two classes, both present
  double prior_pr_auc = 0;
  // Expected calibration error: the mean distance of a bin's confidence from its accuracy, by rows.
  // Empty when it is not known of all rows.
  std::optional<double> calibration_error;
  std::vector<ReliabilityBin> reliability;  // bins with rows, ascending
  std::vector<ClassRows> classes;           // by class id
  std::map<uint32_t, uint64_t> confusion;   // label * classes + predicted -> rows
  double prior_accuracy = 0;
  double prior_log_loss = 0;
  // Of a regression, which has none of the above. Root of the mean squared error; prior_rmse: of
  // always answering the mean of these rows.
  std::optional<double> rmse;
  double prior_rmse = 0;
  std::optional<double> mae;  // mean absolute error; empty when it is not known of all rows
  std::optional<double> r2;   // 1 - (rmse / prior_rmse)^2; empty when all targets are equal
};

// All zero when there are no rows. `classes` 0: of a regression.
EvaluationFigures ComputeFigures(const EvaluationSums& sums, size_t classes);

}  // namespace millrace
