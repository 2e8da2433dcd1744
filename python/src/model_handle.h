// An exported model that threads of Python share.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "exports/model_scorer.h"
#include "features/feature_encoder.h"
#include "python/src/cell_table.h"

namespace millrace {

// Thread-safe. Needs no lock of the interpreter.
class ModelHandle {
 public:
  // A column that a row has not may be a mistyped one.
  static constexpr bool kTakesRowsWithoutColumns = false;

  // Errors: those of ReadModel.
  static StatusOr<std::unique_ptr<ModelHandle>> Load(const std::string& folder);

  // What must be known of a row; the label is none of them.
  std::vector<std::string> columns() const;
  std::vector<std::string> classes() const;  // none: a regression
  size_t score_count() const { return scorer_.score_count(); }
  // model.json, but for what is checked on disk.
  std::string description() const;

  // Appends the scores of the rows, whose cells stand in the order of columns(): as the
  // Predictor's, bit for bit. InvalidArgument with the row, counted from `first_row`, and the
  // column.
  Status Score(const CellTable& cells, size_t first_row, std::vector<float>& scores) const;

 private:
  // What one thread needs at a time.
  struct Encoding {
    FeatureEncoder encoder;
    std::vector<Row> rows;
  };

  ModelHandle(ExportedModel model, FeatureEncoder encoder);

  std::unique_ptr<Encoding> Take() const;
  void GiveBack(std::unique_ptr<Encoding> encoding) const;

  const ModelScorer scorer_;
  const FeatureEncoder encoder_;  // copied, never used
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Encoding>> idle_;  // guarded by mutex_
};

// The error of a row, by its place in what the caller has given.
Status InRow(size_t row, const Status& status);

}  // namespace millrace
