#include "topics/figures_codec.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

namespace millrace {
namespace {

Status BadFigures(const std::string& reason) { return absl::InvalidArgumentError(reason); }

// Ascending, distinct, and below `end`.
Status CheckKeys(const std::string& name, const google::protobuf::RepeatedField<uint32_t>& keys,
                 uint64_t end) {
  if (std::ranges::adjacent_find(keys, std::greater_equal<>()) != keys.end()) {
    return BadFigures(name + "s that are not in ascending order");
  }
  if (keys.empty() || keys[keys.size() - 1] < end) return absl::OkStatus();
  return BadFigures(name + " " + std::to_string(keys[keys.size() - 1]) + ", but there are " +
                    std::to_string(end));
}

Status CheckCalibration(const EvaluationSumsMessage& message) {
  const int bins = message.calibration_bin_size();
  if (message.calibration_rows_size() != bins || message.calibration_correct_size() != bins ||
      message.calibration_confidence_size() != bins) {
    return BadFigures("calibration sums of unequal length");
  }
  MILLRACE_RETURN_IF_ERROR(
      CheckKeys("calibration bin", message.calibration_bin(), EvaluationSums::kCalibrationBins));
  uint64_t rest = message.rows();
  for (int i = 0; i < bins; ++i) {
    const uint64_t rows = message.calibration_rows(i);
    // No probability is larger than 1. (Rounded up: the product may be too large a number.)
    const uint64_t confidence = message.calibration_confidence(i);
    const uint64_t least_rows = confidence / EvaluationSums::kConfidenceUnits +
                                (confidence % EvaluationSums::kConfidenceUnits > 0 ? 1 : 0);
    if (rows == 0 || rows > rest || message.calibration_correct(i) > rows || least_rows > rows) {
      return BadFigures("calibration bin " + std::to_string(message.calibration_bin(i)) +
                        " has sums that no rows have");
    }
    rest -= rows;
  }
  return absl::OkStatus();
}

}  // namespace

EvaluationSums FromProto(const EvaluationSumsMessage& message) {
  EvaluationSums sums;
  sums.rows = message.rows();
  sums.log_loss = message.log_loss();
  sums.squared_error = message.squared_error();
  sums.target = message.target();
  sums.squared_target = message.squared_target();
  sums.absolute_error = message.absolute_error();
  sums.absolute_rows = message.absolute_rows();
  sums.unpredicted = message.unpredicted();
  for (int i = 0; i < message.cell_size(); ++i) {
    sums.cells[message.cell(i)] += message.cell_count(i);
  }
  for (int i = 0; i < message.score_bin_size(); ++i) {
    sums.score_bins[message.score_bin(i)] += message.score_count(i);
  }
  for (int i = 0; i < message.calibration_bin_size(); ++i) {
    sums.calibration.at(message.calibration_bin(i)) = {message.calibration_rows(i),
                                                       message.calibration_correct(i),
                                                       message.calibration_confidence(i)};
  }
  return sums;
}

void ToProto(const EvaluationSums& sums, EvaluationSumsMessage& message) {
  message.Clear();
  message.set_rows(sums.rows);
  message.set_log_loss(sums.log_loss);
  message.set_squared_error(sums.squared_error);
  message.set_target(sums.target);
  message.set_squared_target(sums.squared_target);
  message.set_absolute_error(sums.absolute_error);
  message.set_absolute_rows(sums.absolute_rows);
  message.set_unpredicted(sums.unpredicted);
  for (const auto& [cell, count] : sums.cells) {
    message.add_cell(cell);
    message.add_cell_count(count);
  }
  for (const auto& [bin, count] : sums.score_bins) {
    message.add_score_bin(bin);
    message.add_score_count(count);
  }
  for (uint32_t i = 0; i < EvaluationSums::kCalibrationBins; ++i) {
    const EvaluationSums::CalibrationBin& bin = sums.calibration[i];
    if (bin.rows == 0) continue;
    message.add_calibration_bin(i);
    message.add_calibration_rows(bin.rows);
    message.add_calibration_correct(bin.correct);
    message.add_calibration_confidence(bin.confidence);
  }
}

bool AreFinite(const EvaluationSumsMessage& message) {
  return std::isfinite(message.log_loss()) && std::isfinite(message.squared_error()) &&
         std::isfinite(message.target()) && std::isfinite(message.squared_target()) &&
         std::isfinite(message.absolute_error());
}

Moments FromProto(const MomentsMessage& message) {
  Moments moments;
  moments.count.assign(message.count().begin(), message.count().end());
  moments.mean.assign(message.mean().begin(), message.mean().end());
  moments.m2.assign(message.m2().begin(), message.m2().end());
  moments.target = {.count = message.target_count(),
                    .mean = message.target_mean(),
                    .m2 = message.target_m2(),
                    .errors = message.error_count(),
                    .mean_error = message.error_mean(),
                    .least = message.target_least(),
                    .most = message.target_most(),
                    .range_votes = message.range_votes()};
  moments.class_rows.assign(message.class_rows().begin(), message.class_rows().end());
  moments.drifts = message.drifts();
  moments.resize = message.resize();
  moments.workers = message.workers();
  return moments;
}

bool HasMoments(const MomentsMessage& message) {
  return message.count_size() > 0 || message.class_rows_size() > 0 || message.target_count() != 0 ||
         message.error_count() != 0;
}

void ToProto(const Moments& moments, MomentsMessage& message) {
  message.Clear();
  message.mutable_count()->Add(moments.count.begin(), moments.count.end());
  message.mutable_mean()->Add(moments.mean.begin(), moments.mean.end());
  message.mutable_m2()->Add(moments.m2.begin(), moments.m2.end());
  message.set_target_count(moments.target.count);
  message.set_target_mean(moments.target.mean);
  message.set_target_m2(moments.target.m2);
  message.set_error_count(moments.target.errors);
  message.set_error_mean(moments.target.mean_error);
  message.set_target_least(moments.target.least);
  message.set_target_most(moments.target.most);
  message.set_range_votes(moments.target.range_votes);
  message.mutable_class_rows()->Add(moments.class_rows.begin(), moments.class_rows.end());
  message.set_drifts(moments.drifts);
  message.set_resize(moments.resize);
  message.set_workers(moments.workers);
}

void ToProto(const EvaluationFigures& figures, Figures& message) {
  message.Clear();
  message.set_rows(figures.rows);
  message.set_accuracy(figures.accuracy);
  message.set_f1_macro(figures.f1_macro);
  message.set_f1_weighted(figures.f1_weighted);
  message.set_log_loss(figures.log_loss);
  message.set_has_auc(figures.auc.has_value());
  message.set_auc(figures.auc.value_or(0));
  message.set_prior_accuracy(figures.prior_accuracy);
  message.set_prior_log_loss(figures.prior_log_loss);
  message.set_has_rmse(figures.rmse.has_value());
  message.set_rmse(figures.rmse.value_or(0));
  message.set_prior_rmse(figures.prior_rmse);
  if (figures.mae) message.set_mae(*figures.mae);
  if (figures.r2) message.set_r2(*figures.r2);
  if (figures.pr_auc) message.set_pr_auc(*figures.pr_auc);
  message.set_prior_pr_auc(figures.prior_pr_auc);
  if (figures.calibration_error) message.set_calibration_error(*figures.calibration_error);
  for (const EvaluationFigures::ReliabilityBin& bin : figures.reliability) {
    message.add_reliability_bin(bin.bin);
    message.add_reliability_rows(bin.rows);
    message.add_reliability_confidence(bin.confidence);
    message.add_reliability_accuracy(bin.accuracy);
  }
  if (figures.classes.size() > kMostClassesTold) return;
  for (const EvaluationFigures::ClassRows& rows : figures.classes) {
    message.add_class_rows(rows.labelled);
    message.add_class_predicted(rows.predicted);
    message.add_class_correct(rows.correct);
  }
  if (figures.confusion.size() > kMostCellsTold) return;
  for (const auto& [cell, count] : figures.confusion) {
    message.add_cell(cell);
    message.add_cell_count(count);
  }
}

Figures ToFigures(const EvaluationSums& sums, size_t classes) {
  Figures figures;
  ToProto(ComputeFigures(sums, classes), figures);
  return figures;
}

Status CheckSums(const EvaluationSumsMessage& message, size_t classes) {
  if (message.cell_size() != message.cell_count_size() ||
      message.score_bin_size() != message.score_count_size()) {
    return BadFigures("evaluation sums of unequal length");
  }
  MILLRACE_RETURN_IF_ERROR(CheckKeys("confusion cell", message.cell(), classes * classes));
  MILLRACE_RETURN_IF_ERROR(
      CheckKeys("score bin", message.score_bin(), 2 * EvaluationSums::kScoreBins));
  MILLRACE_RETURN_IF_ERROR(CheckCalibration(message));
  if (message.unpredicted() > message.rows() ||
      message.absolute_rows() > message.rows() - message.unpredicted()) {
    return BadFigures("errors of more rows than there are");
  }
  return absl::OkStatus();
}

Status CheckResize(uint64_t number, uint32_t workers, uint32_t most_workers) {
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("a change of the workers:", number, kMostResize));
  if (number > 0 && workers == 0) return BadFigures("a change to no workers");
  return CheckAtMost("workers:", workers, most_workers);
}

Status CheckMoments(const MomentsMessage& message, size_t columns, size_t classes,
                    uint32_t most_workers) {
  const auto size = static_cast<int>(columns);
  if ((message.count_size() > 0 && message.count_size() != size) ||
      message.mean_size() != message.count_size() || message.m2_size() != message.count_size()) {
    return BadFigures("moments of " + std::to_string(message.count_size()) +
                      " columns, but the job has " + std::to_string(columns));
  }
  if (static_cast<size_t>(message.class_rows_size()) > classes) {
    return BadFigures("rows of " + std::to_string(message.class_rows_size()) +
                      " classes, but the job has " + std::to_string(classes));
  }
  return CheckResize(message.resize(), message.workers(), most_workers);
}

Status CheckFigures(const Figures& message) {
  const int bins = message.reliability_bin_size();
  if (message.reliability_rows_size() != bins || message.reliability_confidence_size() != bins ||
      message.reliability_accuracy_size() != bins) {
    return BadFigures("reliability bins of unequal length");
  }
  MILLRACE_RETURN_IF_ERROR(
      CheckKeys("reliability bin", message.reliability_bin(), kReliabilityBins));
  const int classes = message.class_rows_size();
  if (message.class_predicted_size() != classes || message.class_correct_size() != classes) {
    return BadFigures("counts of classes of unequal length");
  }
  if (static_cast<size_t>(classes) > kMostClassesTold) {
    return BadFigures("counts of " + std::to_string(classes) + " classes");
  }
  for (int i = 0; i < classes; ++i) {
    if (message.class_correct(i) > std::min(message.class_rows(i), message.class_predicted(i))) {
      return BadFigures("class " + std::to_string(i) + " has more right predictions than it can");
    }
  }
  if (message.cell_size() != message.cell_count_size()) {
    return BadFigures("a confusion matrix of unequal length");
  }
  const auto side = static_cast<uint64_t>(classes);
  return CheckKeys("confusion cell", message.cell(), side * side);
}

}  // namespace millrace
