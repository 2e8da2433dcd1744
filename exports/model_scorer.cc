#include "exports/model_scorer.h"

#include <utility>

#include "base/check.h"
#include "base/distinct_ids.h"
#include "exports/embedding_rows.h"
#include "exports/model_shape.h"

namespace millrace {
namespace {

Scaler ScalerOf(const ExportedModel& model) {
  const ModelDescription& description = model.description;
  Scaler scaler = description.shape().scaled() ? Scaler(model.moments)
                                               : Scaler::Identity(description.shape().numeric());
  scaler.set_target(TargetOf(description));
  const auto& rows = description.frequencies().rows();
  scaler.set_class_rows({rows.begin(), rows.end()});
  return scaler;
}

}  // namespace

ModelScorer::ModelScorer(ExportedModel model)
    : model_(std::move(model)),
      features_key_(model_.description.features().SerializeAsString()),
      predictor_(MakePredictor(model_.description)),
      scaler_(ScalerOf(model_)) {
  MILLRACE_CHECK(model_.weights.size() == predictor_->parameter_count());
  MILLRACE_CHECK(model_.description.shape().row_width() == predictor_->row_width());
  MILLRACE_CHECK(model_.rows.size() == model_.ids.size() * predictor_->row_width());
}

void ModelScorer::Score(RowsView rows, std::span<float> scores) const {
  MILLRACE_CHECK(scores.size() == rows.size() * score_count());
  std::vector<EmbeddingId> ids;
  for (const Row* row : rows) predictor_->AppendIds(*row, ids);
  SortDistinct(ids);
  const std::vector<float> values = EmbeddingRowsOf(model_, ids);
  predictor_->Compute(rows, scaler_, model_.weights, {ids, values}, nullptr, scores);
}

}  // namespace millrace
