// Turns the value of a record of the labels' topic into a key and a label. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "features/feature_encoder.h"
#include "messages/features.pb.h"
#include "producer/label_join.h"
#include "producer/row_decoder.h"
#include "producer/source_format.h"

namespace millrace {

// Not thread-safe.
class LabelDecoder {
 public:
  // `spec` is that of the rows, with its classes; `format` is that of the labels' records.
  // InvalidArgument: a key that is the label, or columns that the format has not.
  static StatusOr<LabelDecoder> Create(const FeatureSpec& spec, const std::string& key_column,
                                       const SourceFormat& format);
  // Checks the same before the classes are known.
  static Status Check(const FeatureSpec& spec, const std::string& key_column,
                      const SourceFormat& format);

  // InvalidArgument with the reason: there is no label. Others: of the CellDecoder.
  Status Decode(std::string_view value, std::string* key, JoinedLabel* label);
  // Of the text of a cell. InvalidArgument: no class of the job, or no number.
  StatusOr<JoinedLabel> Read(std::string_view cell);

 private:
  LabelDecoder(std::string key_column, FeatureEncoder encoder, CellDecoder cells)
      : key_column_(std::move(key_column)),
        encoder_(std::move(encoder)),
        cells_(std::move(cells)) {}

  std::string key_column_;
  FeatureEncoder encoder_;
  CellDecoder cells_;
  Row row_{};  // scratch
};

}  // namespace millrace
