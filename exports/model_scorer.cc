#include "exports/model_scorer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/distinct_ids.h"
#include "base/initial_row.h"
#include "exports/model_shape.h"

namespace millrace {
namespace {

constexpr uint32_t kTable = 0;  // a job has one

Scaler ScalerOf(const ExportedModel& model) {
  const ModelDescription& description = model.description;
  Scaler scaler = description.shape().scaled() ? Scaler(model.moments)
                                               : Scaler::Identity(description.shape().numeric());
  const ModelDescription::Target& target = description.target();
  scaler.set_target({.count = target.count(), .mean = target.mean(), .m2 = target.m2()});
  const auto& rows = description.frequencies().rows();
  scaler.set_class_rows({rows.begin(), rows.end()});
  return scaler;
}

std::vector<float> LimitsOf(const ModelShape& shape) {
  std::vector<float> limits(shape.row_width(), shape.row_limit());
  std::fill_n(limits.begin(), shape.row_zeros(), 0.0f);
  return limits;
}

}  // namespace

ModelScorer::ModelScorer(ExportedModel model)
    : model_(std::move(model)),
      predictor_(MakePredictor(model_.description)),
      scaler_(ScalerOf(model_)),
      limits_(LimitsOf(model_.description.shape())) {
  MILLRACE_CHECK(model_.weights.size() == predictor_->parameter_count());
  MILLRACE_CHECK(limits_.size() == predictor_->row_width());
  MILLRACE_CHECK(model_.rows.size() == model_.ids.size() * limits_.size());
}

std::vector<float> ModelScorer::RowsOf(const std::vector<EmbeddingId>& ids) const {
  const size_t width = limits_.size();
  std::vector<float> rows(ids.size() * width);
  auto at = model_.ids.begin();
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::span<float> row = std::span(rows).subspan(i * width, width);
    at = std::lower_bound(at, model_.ids.end(), ids[i]);
    if (at == model_.ids.end() || *at != ids[i]) {
      DrawInitialValues(model_.description.shape().row_seed(), kTable, ids[i], limits_, row);
      continue;
    }
    std::copy_n(model_.rows.begin() + (at - model_.ids.begin()) * static_cast<ptrdiff_t>(width),
                width, row.begin());
  }
  return rows;
}

void ModelScorer::Score(RowsView rows, std::span<float> scores) const {
  MILLRACE_CHECK(scores.size() == rows.size() * score_count());
  std::vector<EmbeddingId> ids;
  for (const Row* row : rows) predictor_->AppendIds(*row, ids);
  SortDistinct(ids);
  const std::vector<float> values = RowsOf(ids);
  predictor_->Compute(rows, scaler_, model_.weights, {ids, values}, nullptr, scores);
}

}  // namespace millrace
