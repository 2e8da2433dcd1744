#include "metrics/evaluation_csv.h"

#include "absl/strings/str_format.h"

namespace millrace {

std::string EvaluationCsvHeader() {
  return "timestamp;partition;vectorClock;loss;fMeasure;accuracy;kind;rows;rows_trained;"
         "rows_tested;f1_macro;auc;prior_accuracy;prior_log_loss;train_loss\n";
}

std::string EvaluationCsvLine(const CurvePoint& point) {
  const Figures& figures = point.figures;
  const std::string auc = figures.has_auc() ? absl::StrFormat("%.6f", figures.auc()) : "";
  return absl::StrFormat("%d;%d;%d;%.6f;%.6f;%.6f;%s;%d;%d;%d;%.6f;%s;%.6f;%.6f;%.6f\n",
                         point.timestamp_ms, point.shard, point.clock, figures.log_loss(),
                         figures.f1_weighted(), figures.accuracy(), std::string(NameOf(point.kind)),
                         point.rows_tested, point.rows_trained, figures.rows(), figures.f1_macro(),
                         auc, figures.prior_accuracy(), figures.prior_log_loss(), point.train_loss);
}

}  // namespace millrace
