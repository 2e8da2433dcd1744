// Evaluation lines for people and spreadsheets: fields separated by semicolons, a header first.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "base/types.h"
#include "models/evaluation.h"

namespace millrace {

// Its columns:
//
//   timestamp;partition;vectorClock;loss;fMeasure;accuracy[;numTuplesSeen];rmse;prior_rmse;mae;r2;
//   auc;pr_auc;calibration_error
//
// The timestamp is in ms since 1970, loss is the mean log loss, fMeasure the weighted F1; of a
// regression those, accuracy and the last three are empty, as rmse, prior_rmse (of always answering
// the mean), mae and r2 are of classes. Appends to an existing file, so that a program that starts
// again continues it; a file with other columns is an error. Readable by its owner only. Used by
// one thread at a time.
class EvaluationLog {
 public:
  static StatusOr<std::unique_ptr<EvaluationLog>> Open(const std::string& path,
                                                       bool with_rows_seen);
  ~EvaluationLog();
  EvaluationLog(const EvaluationLog&) = delete;
  EvaluationLog& operator=(const EvaluationLog&) = delete;

  void Write(int64_t timestamp_ms, uint32_t partition, Clock clock,
             const EvaluationFigures& figures, std::optional<uint64_t> rows_seen = std::nullopt);

 private:
  explicit EvaluationLog(std::FILE* file) : file_(file) {}
  std::FILE* file_;
};

}  // namespace millrace
