#include "models/evaluation.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"

namespace millrace {
namespace {

constexpr float kMinProbability = 1e-15f;

uint32_t ScoreBin(float score) {
  // Written so that a NaN falls into bin 0.
  if (!(score > 0)) return 0;
  const float bin = std::min(score, 1.0f) * static_cast<float>(EvaluationSums::kScoreBins);
  return std::min(static_cast<uint32_t>(bin), EvaluationSums::kScoreBins - 1);
}

double Ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

// How many rows have a class, are predicted to have it, and both.
struct ClassCounts {
  double labelled = 0;
  double predicted = 0;
  double both = 0;
};

std::vector<ClassCounts> CountClasses(const EvaluationSums& sums, size_t classes) {
  std::vector<ClassCounts> counts(classes);
  for (const auto& [cell, rows] : sums.cells) {
    const size_t label = cell / classes;
    const size_t predicted = cell % classes;
    MILLRACE_CHECK(label < classes);
    const double weight = static_cast<double>(rows);
    counts[label].labelled += weight;
    counts[predicted].predicted += weight;
    if (label == predicted) counts[label].both += weight;
  }
  return counts;
}

// The chance that a row of class 1 has a higher score than one of class 0, ties counting half.
std::optional<double> AreaUnderCurve(const EvaluationSums& sums) {
  double negatives = 0;  // with lower scores than the bin at hand
  double positives = 0;
  double wins = 0;
  const auto rows_of = [&sums](uint32_t key) {
    const auto found = sums.score_bins.find(key);
    return found == sums.score_bins.end() ? 0.0 : static_cast<double>(found->second);
  };
  for (uint32_t bin = 0; bin < EvaluationSums::kScoreBins; ++bin) {
    const double bin_negatives = rows_of(2 * bin);
    const double bin_positives = rows_of(2 * bin + 1);
    wins += bin_positives * (negatives + bin_negatives / 2);
    negatives += bin_negatives;
    positives += bin_positives;
  }
  if (negatives == 0 || positives == 0) return std::nullopt;
  return wins / (negatives * positives);
}

}  // namespace

void EvaluationSums::Add(uint32_t label, std::span<const float> probabilities) {
  const size_t classes = probabilities.size();
  MILLRACE_CHECK(label < classes);
  ++rows;
  // A NaN, of weights gone wrong, counts as the worst probability.
  const float probability = probabilities[label] > kMinProbability
                                ? std::min(probabilities[label], 1.0f)
                                : kMinProbability;
  log_loss -= std::log(static_cast<double>(probability));
  const auto best = std::max_element(probabilities.begin(), probabilities.end());
  const uint32_t predicted = static_cast<uint32_t>(best - probabilities.begin());
  ++cells[static_cast<uint32_t>(label * classes) + predicted];
  if (classes == 2) ++score_bins[2 * ScoreBin(probabilities[1]) + label];
}

void EvaluationSums::AddTarget(float row_target, float prediction) {
  ++rows;
  const double wanted = static_cast<double>(row_target);
  const double error = (std::isfinite(prediction) ? static_cast<double>(prediction) : 0) - wanted;
  squared_error += error * error;
  target += wanted;
  squared_target += wanted * wanted;
}

void EvaluationSums::AddRow(const Row& row, std::span<const float> scores, size_t classes) {
  classes > 0 ? Add(row.label, scores) : AddTarget(row.target, scores[0]);
}

void EvaluationSums::Merge(const EvaluationSums& other) {
  rows += other.rows;
  log_loss += other.log_loss;
  squared_error += other.squared_error;
  target += other.target;
  squared_target += other.squared_target;
  for (const auto& [cell, count] : other.cells) cells[cell] += count;
  for (const auto& [bin, count] : other.score_bins) score_bins[bin] += count;
}

EvaluationFigures ComputeFigures(const EvaluationSums& sums, size_t classes) {
  EvaluationFigures figures;
  figures.rows = sums.rows;
  if (sums.rows == 0) return figures;
  const double rows = static_cast<double>(sums.rows);
  if (classes == 0) {
    const double mean = sums.target / rows;
    figures.rmse = std::sqrt(sums.squared_error / rows);
    figures.prior_rmse = std::sqrt(std::max(0.0, sums.squared_target / rows - mean * mean));
    return figures;
  }
  double correct = 0;
  double occurring = 0;
  for (const ClassCounts& counts : CountClasses(sums, classes)) {
    const double f1 = Ratio(2 * counts.both, counts.labelled + counts.predicted);
    if (counts.labelled + counts.predicted > 0) occurring += 1;
    figures.f1_macro += f1;
    figures.f1_weighted += f1 * counts.labelled / rows;
    correct += counts.both;
    const double frequency = counts.labelled / rows;
    figures.prior_accuracy = std::max(figures.prior_accuracy, frequency);
    if (frequency > 0) figures.prior_log_loss -= frequency * std::log(frequency);
  }
  figures.accuracy = correct / rows;
  figures.f1_macro = Ratio(figures.f1_macro, occurring);
  figures.log_loss = sums.log_loss / rows;
  if (classes == 2) figures.auc = AreaUnderCurve(sums);
  return figures;
}

}  // namespace millrace
