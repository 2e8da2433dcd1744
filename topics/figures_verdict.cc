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

}  // namespace

bool IsWorseThanPrior(const Figures& figures) {
  // Negated, so that what is no number is worse.
  if (figures.has_rmse()) return !(figures.rmse() <= figures.prior_rmse() * (1 + kTolerance));
  return !(figures.log_loss() <= figures.prior_log_loss() + kTolerance);
}

std::optional<std::string> WorseThanPriorText(const Figures& figures, FiguresOf of) {
  if (figures.rows() < kFewestRows || !IsWorseThanPrior(figures)) return std::nullopt;
  const bool is_scored = of == FiguresOf::kScored;
  const std::string rows =
      absl::StrCat(is_scored ? "on these " : "after ", figures.rows(), " rows");
  const char* const when = is_scored ? "" : " (each row tested before it is learnt from)";
  if (figures.has_rmse()) {
    return absl::StrFormat(
        "%s the model is worse than always answering the mean of the targets: its root mean "
        "squared error is %.6g, the mean's is %.6g%s. %s",
        rows, figures.rmse(), figures.prior_rmse(), when, RemedyOf(of).number);
  }
  return absl::StrFormat(
      "%s the model is worse than always answering the frequencies of the classes: its log loss is "
      "%.4f, theirs is %.4f%s. %s",
      rows, figures.log_loss(), figures.prior_log_loss(), when, RemedyOf(of).classes);
}

}  // namespace millrace
