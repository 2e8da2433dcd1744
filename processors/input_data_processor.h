// Decodes records of input-data to rows; checks their numbers; recognises the end of the stream.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/types.h"
#include "messages/records.pb.h"
#include "models/row.h"
#include "processors/batch_source.h"
#include "topics/row_codec.h"

namespace millrace {

// A record of `input-data` in the log.
struct InputDataRecord {
  Offset offset = 0;
  int64_t timestamp_ms = 0;
  std::string_view key;
  std::string_view value;
};

// Hands each row to the batch source, in order and once. A repeated row number is dropped (a
// producer that started again may repeat itself), a gap is an error, a value that cannot be
// decoded uses up its number and is a dead letter of the source until an update that counts it was
// accepted. Pure; not thread-safe.
class InputDataProcessor {
 public:
  // `next_row`: the number of the first expected row; empty: the number of the first record.
  // `reasons_only`: dead letters hold nothing of the rows.
  InputDataProcessor(WorkerId worker, const RowShape& shape, BatchSource& source,
                     std::optional<RowNumber> next_row, bool reasons_only = false);

  // DataLoss on a gap, naming both numbers.
  Status Process(const InputDataRecord& record);

  std::optional<RowNumber> next_row() const { return next_row_; }
  bool ended() const { return ended_; }
  uint64_t repeated_rows() const { return repeated_rows_; }

 private:
  void AddDeadLetter(const InputDataRecord& record, bool is_row, std::string reason);

  WorkerId worker_;
  RowShape shape_;
  BatchSource& source_;
  std::optional<RowNumber> next_row_;
  bool reasons_only_;
  bool ended_ = false;
  uint64_t repeated_rows_ = 0;
  InputRecord record_;  // scratch, keeps its memory
};

}  // namespace millrace
