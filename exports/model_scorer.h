// Predicts by an exported model: what the evaluation of the job's server computes, bit for bit.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exports/exported_model.h"
#include "models/model.h"
#include "models/moments.h"
#include "models/row.h"

namespace millrace {

// Immutable; may be shared by threads.
class ModelScorer {
 public:
  // REQUIRES: a model that ReadModel has returned, or as good a one.
  explicit ModelScorer(ExportedModel model);

  const ExportedModel& model() const { return model_; }
  // Its features, as bytes: where they are equal, the same FeatureEncoder does.
  const std::string& features_key() const { return features_key_; }
  // Of a row: the probability of each class, or one estimate.
  size_t score_count() const { return predictor_->score_count(); }

  // The feature that a numeric column's value is.
  float Scale(size_t column, double value) const { return scaler_.Scale(column, value); }

  // Writes the scores, rows.size() x score_count(), row by row. A row's scores do not depend on the
  // rows beside it. REQUIRES: rows of the FeatureEncoder of model().description.features(); the
  // label may be that of any class.
  void Score(RowsView rows, std::span<float> scores) const;

 private:
  const ExportedModel model_;
  const std::string features_key_;
  const std::unique_ptr<Model> predictor_;
  const Scaler scaler_;
};

}  // namespace millrace
