#include "server/quality_report.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace millrace {
namespace {

// Figures of fewer rows are a matter of chance.
constexpr uint64_t kFewestRows = 1000;
// In nats, or as a part of the error of the mean: what noise may cost.
constexpr double kTolerance = 0.005;

}  // namespace

std::optional<std::string> QualityReport::OfDropped(uint64_t accepted, uint64_t dropped) {
  if (dropped == 0) return std::nullopt;
  return absl::StrCat(
      dropped, " of ", accepted,
      " updates had values that were not finite, or would have made the weights so; "
      "they count as empty and their rows are not learnt from. Lower "
      "--learning-rate, or use --scaling running");
}

std::optional<std::string> QualityReport::OfLoss(const EvaluationSums& progressive) const {
  if (progressive.rows < kFewestRows) return std::nullopt;
  const EvaluationFigures figures = ComputeFigures(progressive, classes_);
  if (figures.rmse) {
    if (*figures.rmse <= figures.prior_rmse * (1 + kTolerance)) return std::nullopt;
    return absl::StrFormat(
        "after %d rows the model is worse than their mean: its root mean squared error is %.6g, "
        "the "
        "mean's is %.6g (each row tested before it is learnt from). Check --learning-rate, "
        "--scaling "
        "and --offset",
        figures.rows, *figures.rmse, figures.prior_rmse);
  }
  if (figures.log_loss <= figures.prior_log_loss + kTolerance) return std::nullopt;
  return absl::StrFormat(
      "after %d rows the model is worse than the frequencies of the classes: its log loss is %.4f, "
      "theirs is %.4f (each row tested before it is learnt from). Check --learning-rate, --scaling "
      "and the columns",
      figures.rows, figures.log_loss, figures.prior_log_loss);
}

std::optional<std::string> QualityReport::Tick(const EvaluationSums& progressive, uint64_t accepted,
                                               uint64_t dropped) {
  if (dropped >= dropped_at_) {
    while (dropped_at_ <= dropped) dropped_at_ *= 10;
    return OfDropped(accepted, dropped);
  }
  if (progressive.rows < rows_at_) return std::nullopt;
  while (rows_at_ <= progressive.rows) rows_at_ *= 10;
  return OfLoss(progressive);
}

std::optional<std::string> QualityReport::AtEnd(const EvaluationSums& progressive,
                                                uint64_t accepted, uint64_t dropped) const {
  std::optional<std::string> of_dropped = OfDropped(accepted, dropped);
  std::optional<std::string> of_loss = OfLoss(progressive);
  if (of_dropped && of_loss) return absl::StrCat(*of_dropped, "; and ", *of_loss);
  return of_dropped ? of_dropped : of_loss;
}

}  // namespace millrace
