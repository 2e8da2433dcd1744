// The figures of merit that follow from the sums of an evaluation.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "models/evaluation.h"

namespace millrace {
namespace {

// A variance below this part of the mean square is what rounding leaves of equal targets.
constexpr double kNoVariance = 1e-12;

double Ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

std::vector<EvaluationFigures::ClassRows> CountClasses(const EvaluationSums& sums, size_t classes) {
  std::vector<EvaluationFigures::ClassRows> counts(classes);
  for (const auto& [cell, rows] : sums.cells) {
    const size_t label = cell / classes;
    const size_t predicted = cell % classes;
    MILLRACE_CHECK(label < classes);
    counts[label].labelled += rows;
    counts[predicted].predicted += rows;
    if (label == predicted) counts[label].correct += rows;
  }
  return counts;
}

// Areas over the histogram of scores. Rows of one bin have the same score.
void AddAreas(const EvaluationSums& sums, EvaluationFigures& figures) {
  const auto rows_of = [&sums](uint32_t key) {
    const auto found = sums.score_bins.find(key);
    return found == sums.score_bins.end() ? 0.0 : static_cast<double>(found->second);
  };
  double all_positives = 0;
  for (const auto& [key, rows] : sums.score_bins) {
    if (key % 2 == 1) all_positives += static_cast<double>(rows);
  }
  double negatives = 0;  // with higher scores than the bin at hand; at last in it, too
  double positives = 0;
  double wins = 0;  // pairs in which the row of class 1 has the higher score, ties counting half
  double area = 0;  // under precision over recall
  for (uint32_t bin = EvaluationSums::kScoreBins; bin-- > 0;) {
    const double bin_negatives = rows_of(2 * bin);
    const double bin_positives = rows_of(2 * bin + 1);
    wins += bin_negatives * (positives + bin_positives / 2);
    negatives += bin_negatives;
    positives += bin_positives;
    if (bin_positives > 0) {
      area += bin_positives / all_positives * (positives / (positives + negatives));
    }
  }
  figures.prior_pr_auc = Ratio(positives, positives + negatives);
  if (negatives == 0 || positives == 0) return;
  figures.auc = wins / (negatives * positives);
  figures.pr_auc = area;
}

void AddCalibration(const EvaluationSums& sums, EvaluationFigures& figures) {
  uint64_t known = 0;
  double distance = 0;
  for (uint32_t i = 0; i < EvaluationSums::kCalibrationBins; ++i) {
    const EvaluationSums::CalibrationBin& bin = sums.calibration[i];
    if (bin.rows == 0) continue;
    known += bin.rows;
    const double rows = static_cast<double>(bin.rows);
    const double correct = static_cast<double>(bin.correct);
    const double confidence =
        static_cast<double>(bin.confidence) / static_cast<double>(EvaluationSums::kConfidenceUnits);
    distance += std::abs(confidence - correct);
    figures.reliability.push_back({i, bin.rows, confidence / rows, correct / rows});
  }
  if (known != sums.rows) {
    figures.reliability.clear();
    return;
  }
  figures.calibration_error = distance / static_cast<double>(sums.rows);
}

void ComputeRegression(const EvaluationSums& sums, EvaluationFigures& figures) {
  const uint64_t predicted = sums.rows - sums.unpredicted;
  figures.rmse = 0;
  if (predicted == 0) return;
  const double rows = static_cast<double>(predicted);
  const double mean = sums.target / rows;
  const double mean_square = sums.squared_target / rows;
  const double variance = std::max(0.0, mean_square - mean * mean);
  figures.rmse = std::sqrt(sums.squared_error / rows);
  figures.prior_rmse = std::sqrt(variance);
  if (sums.absolute_rows == predicted) figures.mae = sums.absolute_error / rows;
  if (variance > kNoVariance * mean_square) figures.r2 = 1 - sums.squared_error / rows / variance;
}

void ComputeClassification(const EvaluationSums& sums, size_t classes, EvaluationFigures& figures) {
  const double rows = static_cast<double>(sums.rows);
  uint64_t correct = 0;
  double occurring = 0;
  figures.classes = CountClasses(sums, classes);
  for (const EvaluationFigures::ClassRows& counts : figures.classes) {
    const double both = static_cast<double>(counts.labelled + counts.predicted);
    const double f1 = Ratio(2 * static_cast<double>(counts.correct), both);
    if (both > 0) occurring += 1;
    const double frequency = static_cast<double>(counts.labelled) / rows;
    figures.f1_macro += f1;
    figures.f1_weighted += f1 * frequency;
    correct += counts.correct;
    figures.prior_accuracy = std::max(figures.prior_accuracy, frequency);
    if (frequency > 0) figures.prior_log_loss -= frequency * std::log(frequency);
  }
  figures.accuracy = static_cast<double>(correct) / rows;
  figures.f1_macro = Ratio(figures.f1_macro, occurring);
  figures.log_loss = sums.log_loss / rows;
  figures.confusion = sums.cells;
  if (classes == 2) AddAreas(sums, figures);
  AddCalibration(sums, figures);
}

}  // namespace

EvaluationFigures ComputeFigures(const EvaluationSums& sums, size_t classes) {
  EvaluationFigures figures;
  figures.rows = sums.rows;
  if (sums.rows == 0) return figures;
  if (classes == 0) {
    ComputeRegression(sums, figures);
  } else {
    ComputeClassification(sums, classes, figures);
  }
  return figures;
}

}  // namespace millrace
