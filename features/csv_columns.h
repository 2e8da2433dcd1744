// Where the columns that an encoder reads stand in the records of a CSV.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "features/feature_encoder.h"

namespace millrace {

// Not thread-safe.
class CsvColumns {
 public:
  enum class Label { kNeeded, kIfThere };

  // `columns` are the header's names, `file` is the file's name in messages. Errors: a column that
  // the file does not have, or that is called as a part of a time is.
  static StatusOr<CsvColumns> Find(const FeatureEncoder& encoder,
                                   const std::vector<std::string>& columns, std::string_view file,
                                   Label label = Label::kNeeded);

  bool has_label() const { return has_label_; }

  // `fields` are all fields of a record. Those of the encoder's required_columns(), without the
  // label if the file has none, valid until the next call. InvalidArgument: a number of fields
  // other than the header's.
  StatusOr<std::span<const std::string_view>> Select(std::span<const std::string_view> fields);

 private:
  CsvColumns(std::vector<size_t> positions, size_t column_count, bool has_label)
      : positions_(std::move(positions)),
        column_count_(column_count),
        has_label_(has_label),
        selected_(positions_.size()) {}

  std::vector<size_t> positions_;  // in the record, of each column that is read
  size_t column_count_;
  bool has_label_;
  std::vector<std::string_view> selected_;
};

}  // namespace millrace
