// Encodes rows as records of input-data, and decodes them. A record has consecutive rows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/types.h"
#include "messages/records.pb.h"
#include "models/row.h"
#include "topics/row_batch.h"

namespace millrace {

RowShape RowShapeFrom(const JobFeatures& features);

// The key of a record: it has the rows [first, first + count) of its partition; of no rows: it is a
// flush, or the end of the stream, before row `first`. A reader knows so without the value which
// rows a damaged one would have had.
struct InputKey {
  RowNumber first = 0;
  uint32_t count = 0;

  bool has_rows() const { return count > 0; }
  RowNumber end() const { return first + count; }  // of the rows
  bool operator==(const InputKey&) const = default;
};
std::string EncodeInputKey(const InputKey& key);
// Empty: no such key, or one of more rows than a record or a partition can have.
std::optional<InputKey> DecodeInputKey(std::string_view bytes);

// Values are single frames of InputRecord: the rows of a batch, a row by itself, a flush, the end.
std::string EncodeRows(RowBatchEncoder& batch);
std::string EncodeRow(const Row& row);
std::string EncodeFlush(RowNumber row_count);
std::string EncodeEnd(RowNumber row_count, uint64_t fingerprint = 0);

// Parses a value of input-data into `record` (reused: no allocation when warm) and checks that it
// is what the key says. InvalidArgument with the reason.
Status ParseInput(const InputKey& key, std::string_view value, InputRecord& record);
// The same, and that its columns are those of `shape`; RowBatchReader takes its rows out.
Status DecodeInput(const InputKey& key, std::string_view value, const RowShape& shape,
                   InputRecord& record);
// A row by itself, as EncodeRow makes it.
Status DecodeRow(std::string_view value, const RowShape& shape, InputRecord& record, Row& row);

}  // namespace millrace
