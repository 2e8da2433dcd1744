#include "models/evaluation.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace millrace {
namespace {

constexpr float kMinProbability = 1e-15f;

// Of equal widths over [0, 1], both ends included. Written so that a NaN falls into bin 0.
uint32_t BinOf(float share, uint32_t bins) {
  if (!(share > 0)) return 0;
  const float bin = std::min(share, 1.0f) * static_cast<float>(bins);
  return std::min(static_cast<uint32_t>(bin), bins - 1);
}

uint64_t ConfidenceUnits(float probability) {
  if (!(probability > 0)) return 0;
  const float units =
      std::min(probability, 1.0f) * static_cast<float>(EvaluationSums::kConfidenceUnits);
  return (static_cast<uint64_t>(2 * units) + 1) / 2;  // to the nearest
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
  if (classes == 2) ++score_bins[2 * BinOf(probabilities[1], kScoreBins) + label];
  CalibrationBin& bin = calibration[BinOf(*best, kCalibrationBins)];
  ++bin.rows;
  bin.correct += predicted == label ? 1 : 0;
  bin.confidence += ConfidenceUnits(*best);
}

void EvaluationSums::AddTarget(float row_target, float prediction) {
  ++rows;
  const double wanted = static_cast<double>(row_target);
  const double error = (std::isfinite(prediction) ? static_cast<double>(prediction) : 0) - wanted;
  squared_error += error * error;
  target += wanted;
  squared_target += wanted * wanted;
  absolute_error += std::abs(error);
  ++absolute_rows;
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
  absolute_error += other.absolute_error;
  absolute_rows += other.absolute_rows;
  unpredicted += other.unpredicted;
  for (const auto& [cell, count] : other.cells) cells[cell] += count;
  for (const auto& [bin, count] : other.score_bins) score_bins[bin] += count;
  for (size_t i = 0; i < calibration.size(); ++i) {
    calibration[i].rows += other.calibration[i].rows;
    calibration[i].correct += other.calibration[i].correct;
    calibration[i].confidence += other.calibration[i].confidence;
  }
}

}  // namespace millrace
