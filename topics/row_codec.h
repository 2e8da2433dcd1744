// Encodes rows as records of input-data, and decodes them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/types.h"
#include "messages/records.pb.h"
#include "models/row.h"

namespace millrace {

// The sizes of a row's parts, which decoded rows are checked against.
struct RowShape {
  size_t numeric = 0;   // numeric columns
  size_t features = 0;  // without the bias
  size_t classes = 0;   // 0: a regression
  size_t ids = 0;       // of embedding rows
};
RowShape RowShapeFrom(const JobFeatures& features);

// input-data: values are single frames of InputRecord.
std::string EncodeRow(const Row& row);
std::string EncodeEnd(RowNumber row_count);

// Parses a value of input-data into `record` (reused: no allocation when warm) and checks it
// against `shape`. InvalidArgument with the reason.
Status DecodeInput(std::string_view value, const RowShape& shape, InputRecord& record);
void ToRow(const TrainingRow& message, Row& row);

}  // namespace millrace
