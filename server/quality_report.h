// Warns of a job that learns nothing, or worse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "models/drift_detector.h"
#include "models/evaluation.h"

namespace millrace {

// Looks at shard 0's counts now and then. What it says it says at most once for each tenfold of
// rows, so that a long job is not covered with it. Pure; not thread-safe.
class QualityReport {
 public:
  // `classes` 0: a regression.
  explicit QualityReport(size_t classes) : classes_(classes) {}

  // A warning that is due now; empty: none. `accepted`: updates so far; `dropped`: those of them
  // that were not finite.
  std::optional<std::string> Tick(const EvaluationSums& progressive, uint64_t accepted,
                                  uint64_t dropped);
  // Of a drift that has been found since the last call; the first call only looks.
  std::optional<std::string> TickDrift(const DriftDetector::Drift& last);
  // The same as Tick, for the end: what is wrong then, said before or not.
  // `window`: of the newest rows.
  std::optional<std::string> AtEnd(const EvaluationSums& progressive, const EvaluationSums& window,
                                   uint64_t accepted, uint64_t dropped) const;

 private:
  static std::optional<std::string> OfDropped(uint64_t accepted, uint64_t dropped);
  std::optional<std::string> OfLoss(const EvaluationSums& progressive,
                                    const EvaluationSums& window) const;

  size_t classes_;
  uint64_t dropped_at_ = 1;         // the next count of dropped updates that is worth a line
  std::optional<uint64_t> drifts_;  // that are known
  uint64_t rows_at_ = 1000;         // the next count of rows after which the loss is looked at
};

}  // namespace millrace
