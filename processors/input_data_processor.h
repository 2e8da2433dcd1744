// Decodes records of input-data to rows; checks their numbers; recognises the end of the stream and
// what is to be flushed.
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

// Hands each row to the batch source, in order and once. A repeated row is dropped (a producer that
// started again may repeat rows, and put others together), a gap is an error. A row that cannot be
// used uses up its number, a value that cannot be decoded the numbers of all its rows; it is a dead
// letter of the source until an update that counts it, or the last of them, was accepted. Pure; not
// thread-safe.
class InputDataProcessor {
 public:
  // `next_row`: the number of the first expected row; empty: the number of the first record.
  // `reasons_only`: dead letters hold nothing of the rows.
  InputDataProcessor(WorkerId worker, const RowShape& shape, BatchSource& source,
                     std::optional<RowNumber> next_row, bool reasons_only = false);

  // DataLoss on a gap, naming both numbers.
  Status Process(const InputDataRecord& record);

  // Of the rows that have come, also of those that cannot be used.
  std::optional<RowNumber> next_row() const { return next_row_; }
  bool ended() const { return ended_; }
  uint64_t repeated_rows() const { return repeated_rows_; }

 private:
  // A record that has used up no number.
  void AddForeign(const InputDataRecord& record, const Status& why);
  Status ProcessGap(const InputDataRecord& record, const InputKey& key);
  // A flush, or the end of the stream.
  void ProcessMark(const InputDataRecord& record, const InputKey& key);
  void ProcessRows(const InputDataRecord& record, const InputKey& key);
  // The record's rows from next_row_ on.
  void AddRows(const InputDataRecord& record, const InputKey& key);
  DeadLetter Letter(const InputDataRecord& record, const Status& why) const;

  WorkerId worker_;
  RowShape shape_;
  BatchSource& source_;
  std::optional<RowNumber> next_row_;
  bool reasons_only_;
  bool ended_ = false;
  uint64_t repeated_rows_ = 0;
  InputRecord record_;  // scratch, as the next two: they keep their memory
  RowBatchReader reader_;
  Row row_;
};

}  // namespace millrace
