#include "metrics/evaluation_csv.h"

#include "absl/strings/str_format.h"

namespace millrace {
namespace {

// Empty for a figure that this kind of job has not.
std::string Cell(bool there, double value) {
  return there ? absl::StrFormat("%.6f", value) : std::string();
}

}  // namespace

std::string EvaluationCsvHeader() {
  return "timestamp;partition;vectorClock;loss;fMeasure;accuracy;kind;rows;rows_trained;"
         "rows_tested;f1_macro;auc;prior_accuracy;prior_log_loss;train_loss;rmse;prior_rmse;"
         "mae;r2;pr_auc;calibration_error\n";
}

std::string EvaluationCsvLine(const CurvePoint& point) {
  const Figures& figures = point.figures;
  const bool regression = figures.has_rmse();
  const auto of_classes = [&](double value) { return Cell(!regression, value); };
  return absl::StrFormat(
      "%d;%d;%d;%s;%s;%s;%s;%d;%d;%d;%s;%s;%s;%s;%.6f;%s;%s;%s;%s;%s;%s\n", point.timestamp_ms,
      point.shard, point.clock, of_classes(figures.log_loss()), of_classes(figures.f1_weighted()),
      of_classes(figures.accuracy()), std::string(NameOf(point.kind)), point.rows_tested,
      point.rows_trained, figures.rows(), of_classes(figures.f1_macro()),
      Cell(figures.has_auc(), figures.auc()), of_classes(figures.prior_accuracy()),
      of_classes(figures.prior_log_loss()), point.train_loss, Cell(regression, figures.rmse()),
      Cell(regression, figures.prior_rmse()), Cell(figures.has_mae(), figures.mae()),
      Cell(figures.has_r2(), figures.r2()), Cell(figures.has_pr_auc(), figures.pr_auc()),
      Cell(figures.has_calibration_error(), figures.calibration_error()));
}

}  // namespace millrace
