#include "server/quality_report.h"

#include "absl/strings/str_cat.h"
#include "topics/drift_codec.h"
#include "topics/figures_codec.h"
#include "topics/figures_verdict.h"

namespace millrace {

std::optional<std::string> QualityReport::OfDropped(uint64_t accepted, uint64_t dropped) {
  if (dropped == 0) return std::nullopt;
  return absl::StrCat(
      dropped, " of ", accepted,
      " updates had values that were not finite, or would have made the weights so; "
      "they count as empty and their rows are not learnt from. Lower "
      "--learning-rate, or use --scaling running");
}

std::optional<std::string> QualityReport::OfLoss(const EvaluationSums& progressive,
                                                 const EvaluationSums& window) const {
  return WorseThanPriorText(ToFigures(progressive, classes_), ToFigures(window, classes_));
}

std::optional<std::string> QualityReport::Tick(const EvaluationSums& progressive, uint64_t accepted,
                                               uint64_t dropped) {
  if (dropped >= dropped_at_) {
    while (dropped_at_ <= dropped) dropped_at_ *= 10;
    return OfDropped(accepted, dropped);
  }
  if (progressive.rows < rows_at_) return std::nullopt;
  while (rows_at_ <= progressive.rows) rows_at_ *= 10;
  return OfLoss(progressive, {});
}

std::optional<std::string> QualityReport::TickDrift(const DriftDetector::Drift& last) {
  const uint64_t known = drifts_.value_or(last.count);
  drifts_ = last.count;
  if (last.count <= known) return std::nullopt;
  Drift drift;
  ToProto(last, drift);
  return DriftText(drift, classes_ == 0);
}

std::optional<std::string> QualityReport::AtEnd(const EvaluationSums& progressive,
                                                const EvaluationSums& window, uint64_t accepted,
                                                uint64_t dropped) const {
  std::optional<std::string> of_dropped = OfDropped(accepted, dropped);
  std::optional<std::string> of_loss = OfLoss(progressive, window);
  if (of_dropped && of_loss) return absl::StrCat(*of_dropped, "; and ", *of_loss);
  return of_dropped ? of_dropped : of_loss;
}

}  // namespace millrace
