// Scores a CSV: its rows, and behind each what the model predicts of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "exports/model_scorer.h"
#include "formats/csv_file.h"
#include "formats/reject_file.h"
#include "models/evaluation.h"

namespace millrace {

struct FileScores {
  uint64_t rows = 0;  // that were scored
  uint64_t rejected = 0;
  std::string first_reject;  // "line N: reason"
  // Of the scored rows: those whose label is neither empty nor a class, or a number.
  uint64_t unknown_labels = 0;
  std::string first_unknown_label;  // "line N: reason"
  // Of the rows whose label is known: the file has the model's label column, and a class or a
  // number stands there. With a challenger: and that it can use, too.
  EvaluationSums labelled;
  EvaluationSums challenger;       // of the same rows
  uint64_t not_compared = 0;       // rows with a label that the challenger cannot use
  std::string first_not_compared;  // "line N: reason"
};

struct ScoreFileOptions {
  CsvFile::Options csv{};
  // A second model, which predicts the rows with a label, too; null: there is none.
  std::shared_ptr<const ModelScorer> challenger{};
  bool contributions = false;  // add the columns of Contributions, too
};

// Called for each block of rows.
using ScoreProgress = std::function<void(const CsvFile& file, const FileScores& so_far)>;

// Writes a CSV with the columns of `input` and those of PredictionText, and of Contributions if
// they are wanted, in the delimiter of the input and in UTF-8. `output` appears when it is
// complete, and replaces what is there; "-" is standard output, and a pipe or device is written to
// as it is. Rows that cannot be used go to `rejects` and are no rows of the output; if there are no
// others, that is an error (FailedPrecondition), and there is no output. InvalidArgument: a column
// that one of the models needs is missing, or one that would be added is there; with a challenger,
// also the label. FailedPrecondition: the challenger predicts something else, or the model has no
// contributions. Cancelled: `options.csv.stop` was set; no output is left. Other errors name the
// file.
StatusOr<FileScores> ScoreFile(std::shared_ptr<const ModelScorer> model, const std::string& input,
                               const ScoreFileOptions& options, const std::string& output,
                               RejectSink& rejects, const ScoreProgress& progress);

}  // namespace millrace
