#include "topics/figures_codec.h"

#include <string>

namespace millrace {
namespace {

Status BadFigures(const std::string& reason) { return absl::InvalidArgumentError(reason); }

}  // namespace

EvaluationSums FromProto(const EvaluationSumsMessage& message) {
  EvaluationSums sums;
  sums.rows = message.rows();
  sums.log_loss = message.log_loss();
  sums.squared_error = message.squared_error();
  sums.target = message.target();
  sums.squared_target = message.squared_target();
  for (int i = 0; i < message.cell_size(); ++i) {
    sums.cells[message.cell(i)] += message.cell_count(i);
  }
  for (int i = 0; i < message.score_bin_size(); ++i) {
    sums.score_bins[message.score_bin(i)] += message.score_count(i);
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
  for (const auto& [cell, count] : sums.cells) {
    message.add_cell(cell);
    message.add_cell_count(count);
  }
  for (const auto& [bin, count] : sums.score_bins) {
    message.add_score_bin(bin);
    message.add_score_count(count);
  }
}

Moments FromProto(const MomentsMessage& message) {
  Moments moments;
  moments.count.assign(message.count().begin(), message.count().end());
  moments.mean.assign(message.mean().begin(), message.mean().end());
  moments.m2.assign(message.m2().begin(), message.m2().end());
  return moments;
}

void ToProto(const Moments& moments, MomentsMessage& message) {
  message.Clear();
  message.mutable_count()->Add(moments.count.begin(), moments.count.end());
  message.mutable_mean()->Add(moments.mean.begin(), moments.mean.end());
  message.mutable_m2()->Add(moments.m2.begin(), moments.m2.end());
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
}

Status CheckSums(const EvaluationSumsMessage& message, size_t classes) {
  if (message.cell_size() != message.cell_count_size() ||
      message.score_bin_size() != message.score_count_size()) {
    return BadFigures("evaluation sums of unequal length");
  }
  for (uint32_t cell : message.cell()) {
    if (cell >= classes * classes)
      return BadFigures("confusion cell " + std::to_string(cell) + ", but " +
                        std::to_string(classes) + " classes have " +
                        std::to_string(classes * classes));
  }
  for (uint32_t bin : message.score_bin()) {
    if (bin >= 2 * EvaluationSums::kScoreBins)
      return BadFigures("score bin " + std::to_string(bin) + ", but there are " +
                        std::to_string(2 * EvaluationSums::kScoreBins));
  }
  return absl::OkStatus();
}

Status CheckMoments(const MomentsMessage& message, size_t columns) {
  const auto size = static_cast<int>(columns);
  const bool empty = message.count_size() == 0;
  if ((!empty && message.count_size() != size) || message.mean_size() != message.count_size() ||
      message.m2_size() != message.count_size()) {
    return BadFigures("moments of " + std::to_string(message.count_size()) +
                      " columns, but the job has " + std::to_string(columns));
  }
  return absl::OkStatus();
}

}  // namespace millrace
