// A FeatureEncoder with a CSV header: picks the columns by name from complete records.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "features/csv_columns.h"
#include "features/feature_encoder.h"
#include "messages/features.pb.h"
#include "models/row.h"

namespace millrace {

// Not thread-safe.
class CsvRowEncoder {
 public:
  // `columns` are the header's names, `file` is the file's name in messages. Errors: those of
  // FeatureEncoder::Create() and CsvColumns::Find().
  static StatusOr<CsvRowEncoder> Create(const FeatureSpec& spec,
                                        const std::vector<std::string>& columns,
                                        std::string_view file);
  static StatusOr<CsvRowEncoder> Create(FeatureEncoder encoder,
                                        const std::vector<std::string>& columns,
                                        std::string_view file);

  // `fields` are all fields of a record. Errors: those of FeatureEncoder::Encode(), and a number of
  // fields other than the header's.
  Status Encode(std::span<const std::string_view> fields, Row* row);

  // The fields of encoder().required_columns(), valid until the next call.
  StatusOr<std::span<const std::string_view>> Select(std::span<const std::string_view> fields) {
    return columns_.Select(fields);
  }

  const FeatureEncoder& encoder() const { return encoder_; }

 private:
  CsvRowEncoder(FeatureEncoder encoder, CsvColumns columns)
      : encoder_(std::move(encoder)), columns_(std::move(columns)) {}

  FeatureEncoder encoder_;
  CsvColumns columns_;
};

}  // namespace millrace
