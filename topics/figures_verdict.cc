#include "topics/figures_verdict.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"

namespace millrace {
namespace {

constexpr uint64_t kFewestRows = 1000;
// In nats, or as a part of the error of the mean.
constexpr double kTolerance = 0.005;

// What can be done about it where a number is estimated, else where classes are told apart.
struct Remedy {
  const char* number;
  const char* classes;
};

Remedy RemedyOf(FiguresOf of) {
  switch (of) {
    case FiguresOf::kJob:
      return {
          "Lower --learning-rate if you gave one, use --scaling running, try --loss huber if a few "
          "targets are far from the others, or look for columns that say more of the target",
          "Lower --learning-rate if you gave one, use --scaling running, or look for columns that "
          "say more of the label. With --class-weight a higher log loss is usual: compare AUC and "
          "recall"};
    case FiguresOf::kLearner:
      return {
          "Leave out scaling=False, try loss=\"huber\" if a few targets are far from the others, "
          "or look for columns that say more of the target",
          "Leave out scaling=False, or look for columns that say more of the label. With "
          "class_weight a higher log loss is usual: compare AUC and F1"};
    case FiguresOf::kScored:
      return {
          "If its job's figures were better, these rows are of another kind than those it has "
          "learnt from: train a model on rows like these",
          "If its job's figures were better, these rows are of another kind than those it has "
          "learnt from: train a model on rows like these. With --class-weight a higher log loss "
          "is usual: compare AUC and recall"};
  }
  MILLRACE_CHECK(false);
  return {};
}

// By how much of the log loss, or of the error.
std::string HowMuchWorse(const Figures& figures) {
  if (figures.has_rmse()) {
    return absl::StrFormat(
        "the model is worse than always answering the mean of the targets: its root mean squared "
        "error is %.6g, the mean's is %.6g",
        figures.rmse(), figures.prior_rmse());
  }
  return absl::StrFormat(
      "the model is worse than always answering the frequencies of the classes: its log loss is "
      "%.4f, theirs is %.4f",
      figures.log_loss(), figures.prior_log_loss());
}

}  // namespace

bool IsWorseThanPrior(const Figures& figures) {
  // Negated, so that what is no number is worse.
  if (figures.has_rmse()) return !(figures.rmse() <= figures.prior_rmse() * (1 + kTolerance));
  return !(figures.log_loss() <= figures.prior_log_loss() + kTolerance);
}

std::optional<std::string> WorseThanPriorText(const Figures& figures, FiguresOf of) {
  if (figures.rows() < kFewestRows || !IsWorseThanPrior(figures)) return std::nullopt;
  const bool is_scored = of == FiguresOf::kScored;
  const Remedy remedy = RemedyOf(of);
  return absl::StrCat(is_scored ? "on these " : "after ", figures.rows(), " rows ",
                      HowMuchWorse(figures),
                      is_scored ? "" : " (each row tested before it is learnt from)", ". ",
                      figures.has_rmse() ? remedy.number : remedy.classes);
}

std::optional<std::string> WorseThanPriorText(const Figures& all, const Figures& window) {
  if (std::optional<std::string> of_all = WorseThanPriorText(all)) return of_all;
  if (window.rows() < kFewestRows || !IsWorseThanPrior(window)) return std::nullopt;
  return absl::StrCat("on the newest ", window.rows(), " rows ", HowMuchWorse(window),
                      " (each row tested before it is learnt from), although of all rows it is "
                      "not. What is to be learnt may have changed: let the model forget "
                      "(--on-drift forget), or start a new job with rows like these");
}

}  // namespace millrace
