// Raw rows in, scores out: the encoder and the model of an exported model together.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "exports/model_scorer.h"
#include "features/feature_encoder.h"
#include "models/row.h"

namespace millrace {

// Collects rows and scores them together. Not thread-safe; many may share a model. To make one is
// dear, as is its encoder; another model of the same features may take the place of the first.
class RowScorer {
 public:
  // Rows are best scored by so many: more are held for nothing.
  static constexpr size_t kRowsAtOnce = 256;

  static StatusOr<RowScorer> Create(std::shared_ptr<const ModelScorer> model);

  // Whether this model has the features that the encoder is of.
  bool Fits(const ModelScorer& model) const { return model.features_key() == features_key_; }
  // Scores by this model from here on. REQUIRES: Fits; no rows.
  void Use(std::shared_ptr<const ModelScorer> model);
  // Lets go of the model, which may be large. Nothing but Fits and Use may be called then.
  void Release() { model_.reset(); }

  const ModelScorer& model() const { return *model_; }
  std::shared_ptr<const ModelScorer> shared_model() const { return model_; }
  // What must be known of a row, distinct. The label is none of them.
  std::span<const std::string> columns() const;
  const FeatureEncoder& encoder() const { return encoder_; }

  // Adds a row by its cells in the order of columns(). The error, InvalidArgument, names the
  // column, the value, and what is wrong with it; no row is added then.
  Status Add(std::span<const std::string_view> cells);
  // The same with the label before the cells. A label that cannot be read, or is of no class, is as
  // good as none, and `*label` says why.
  Status AddLabelled(std::span<const std::string_view> label_and_cells, Status* label);

  size_t rows() const { return count_; }
  // Of a row: the probability of each class, or one estimate.
  size_t score_count() const { return model_->score_count(); }
  // The scores of all rows, rows() x score_count(), row by row; valid until the next call.
  std::span<const float> Score();
  // The row as it was added; null if its label is not known.
  const Row* LabelledRow(size_t row) const { return labelled_[row] ? &rows_[row] : nullptr; }
  void Clear() { count_ = 0; }
  // Drops the rows behind the first `rows`, of at least as many.
  void Shrink(size_t rows) { count_ = rows; }

 private:
  RowScorer(std::shared_ptr<const ModelScorer> model, FeatureEncoder encoder)
      : model_(std::move(model)),
        features_key_(model_->features_key()),
        encoder_(std::move(encoder)) {}

  Row& Next();

  std::shared_ptr<const ModelScorer> model_;
  std::string features_key_;
  FeatureEncoder encoder_;
  size_t count_ = 0;
  std::vector<Row> rows_;  // `count_` of them; the others are kept for their memory
  std::vector<bool> labelled_;
  std::vector<const Row*> views_;  // scratch
  std::vector<float> scores_;
};

}  // namespace millrace
