#include "predictor/row_scorer.h"

#include <utility>

#include "base/check.h"

namespace millrace {

StatusOr<RowScorer> RowScorer::Create(std::shared_ptr<const ModelScorer> model) {
  MILLRACE_ASSIGN_OR_RETURN(FeatureEncoder encoder,
                            FeatureEncoder::Create(model->model().description.features()));
  return RowScorer(std::move(model), std::move(encoder));
}

void RowScorer::Use(std::shared_ptr<const ModelScorer> model) {
  MILLRACE_CHECK(count_ == 0 && Fits(*model));
  model_ = std::move(model);
}

std::span<const std::string> RowScorer::columns() const {
  return std::span(encoder_.required_columns()).subspan(1);
}

Row& RowScorer::Next() {
  if (rows_.size() == count_) {
    rows_.emplace_back();
    labelled_.push_back(false);
  }
  return rows_[count_];
}

Status RowScorer::Add(std::span<const std::string_view> cells) {
  MILLRACE_RETURN_IF_ERROR(encoder_.EncodeFeatures(cells, &Next()));
  labelled_[count_++] = false;
  return absl::OkStatus();
}

Status RowScorer::AddLabelled(std::span<const std::string_view> label_and_cells, Status* label) {
  MILLRACE_CHECK(!label_and_cells.empty());
  *label = encoder_.Encode(label_and_cells, &Next());
  if (!label->ok()) return Add(label_and_cells.subspan(1));
  labelled_[count_++] = true;
  return absl::OkStatus();
}

std::span<const float> RowScorer::Score() {
  views_.resize(count_);
  for (size_t i = 0; i < count_; ++i) views_[i] = &rows_[i];
  scores_.resize(count_ * score_count());
  model_->Score(views_, scores_);
  return scores_;
}

}  // namespace millrace
