#include "predictor/challenger_scorer.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "features/label_index.h"
#include "features/number.h"
#include "features/quoted_value.h"
#include "messages/features.pb.h"

namespace millrace {
namespace {

Status NotComparable(const std::string& why) {
  return absl::FailedPreconditionError(
      absl::StrCat("the challenger cannot be compared with the model: ", why,
                   "; give one of a job with the same label and classes"));
}

// Of each class of the model, which of the challenger's it is.
StatusOr<std::vector<size_t>> OrderOfClasses(const FeatureSpec& model,
                                             const FeatureSpec& challenger) {
  if (model.classes_size() != challenger.classes_size()) {
    return NotComparable(absl::StrCat("it has ", challenger.classes_size(), " classes, and not ",
                                      model.classes_size()));
  }
  MILLRACE_ASSIGN_OR_RETURN(
      const LabelIndex classes,
      LabelIndex::Create(std::vector<std::string>(model.classes().begin(), model.classes().end())));
  std::vector<size_t> order(classes.size());
  // (None is found twice: no two of them match one another.)
  for (int k = 0; k < challenger.classes_size(); ++k) {
    const std::optional<uint32_t> found = classes.Find(TrimSpaces(challenger.classes(k)));
    if (!found) {
      return NotComparable(absl::StrCat("its class ", QuotedValue(challenger.classes(k)),
                                        " is none of the model's"));
    }
    order[*found] = static_cast<size_t>(k);
  }
  return order;
}

}  // namespace

StatusOr<ChallengerScorer> ChallengerScorer::Create(const ModelScorer& model,
                                                    std::shared_ptr<const ModelScorer> challenger) {
  const FeatureSpec& ours = model.model().description.features();
  const FeatureSpec& theirs = challenger->model().description.features();
  if (ours.label() != theirs.label()) {
    return NotComparable(absl::StrCat("its label is ", QuotedValue(theirs.label()), ", and not ",
                                      QuotedValue(ours.label())));
  }
  if (ours.regression() != theirs.regression()) {
    return NotComparable(theirs.regression() ? "it estimates a number, and no class"
                                             : "it predicts a class, and no number");
  }
  std::vector<size_t> order = {0};
  if (!ours.regression()) {
    MILLRACE_ASSIGN_OR_RETURN(order, OrderOfClasses(ours, theirs));
  }
  MILLRACE_ASSIGN_OR_RETURN(RowScorer rows, RowScorer::Create(std::move(challenger)));
  return ChallengerScorer(std::move(rows), std::move(order));
}

std::span<const float> ChallengerScorer::Score() {
  const std::span<const float> scores = rows_.Score();
  const size_t width = order_.size();
  scores_.resize(scores.size());
  for (size_t row = 0; row < rows_.rows(); ++row) {
    for (size_t k = 0; k < width; ++k) scores_[row * width + k] = scores[row * width + order_[k]];
  }
  return scores_;
}

}  // namespace millrace
