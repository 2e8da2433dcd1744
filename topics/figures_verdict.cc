#include "topics/figures_verdict.h"

#include <cstdint>

#include "absl/strings/str_format.h"

namespace millrace {
namespace {

constexpr uint64_t kFewestRows = 1000;
// In nats, or as a part of the error of the mean.
constexpr double kTolerance = 0.005;

}  // namespace

bool IsWorseThanPrior(const Figures& figures) {
  // Negated, so that what is no number is worse.
  if (figures.has_rmse()) return !(figures.rmse() <= figures.prior_rmse() * (1 + kTolerance));
  return !(figures.log_loss() <= figures.prior_log_loss() + kTolerance);
}

std::optional<std::string> WorseThanPriorText(const Figures& figures) {
  if (figures.rows() < kFewestRows || !IsWorseThanPrior(figures)) return std::nullopt;
  if (figures.has_rmse()) {
    return absl::StrFormat(
        "after %d rows the model is worse than always answering the mean of the targets: its root "
        "mean squared error is %.6g, the mean's is %.6g (each row tested before it is learnt "
        "from). Lower --learning-rate if you gave one, use --scaling running, try --loss huber if "
        "a few targets are far from the others, or look for columns that say more of the target",
        figures.rows(), figures.rmse(), figures.prior_rmse());
  }
  return absl::StrFormat(
      "after %d rows the model is worse than always answering the frequencies of the classes: its "
      "log loss is %.4f, theirs is %.4f (each row tested before it is learnt from). Lower "
      "--learning-rate if you gave one, use --scaling running, or look for columns that say more "
      "of the label. With --class-weight a higher log loss is usual: compare AUC and recall",
      figures.rows(), figures.log_loss(), figures.prior_log_loss());
}

}  // namespace millrace
