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

// Rows [begin, end) of a partition, which are a worker's rows from `first` on.
struct RowWindow {
  uint32_t partition = 0;
  RowNumber begin = 0;
  RowNumber end = 0;  // above begin
  RowNumber first = 0;

  RowNumber NumberOf(RowNumber row) const { return first + (row - begin); }
  bool operator==(const RowWindow&) const = default;
};

// DataLoss: rows of the partition are missing before the record at this offset.
Status RowsAreMissing(uint32_t partition, Offset offset, RowNumber found, RowNumber expected);

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
  // Of a worker that leases rows: all of them come in windows, and no batch has rows of two. The
  // first has the number `first`.
  static InputDataProcessor OfWindows(RowNumber first, const RowShape& shape, BatchSource& source,
                                      bool reasons_only = false);

  // The next records are those of the window's partition, from one on at or before the one with its
  // first row. REQUIRES windows, all rows of the ones before, and that the numbers go on.
  void Begin(const RowWindow& window);
  // Whether all rows of the window have come: records behind it are not to be processed.
  bool window_is_done() const { return next_row_ == window_.end; }
  // No window comes behind the last one, which is done. Before, what is behind the last row of
  // partitions may be read: BeginBehind says which, and that it has so many rows.
  void BeginBehind(uint32_t partition, RowNumber rows);
  // Such a record, which may be a dead letter. Returns whether it is the partition's end. DataLoss:
  // it has further rows.
  StatusOr<bool> ProcessBehind(const InputDataRecord& record);
  void EndWindows();

  // DataLoss on a gap, naming both numbers; and when a partition ends within a window. REQUIRES a
  // window that is not done, where there are windows.
  Status Process(const InputDataRecord& record);

  // Of the partition: behind the rows that have come, also those that cannot be used.
  std::optional<RowNumber> next_row() const { return next_row_; }
  bool ended() const { return ended_; }
  uint64_t repeated_rows() const { return repeated_rows_; }

 private:
  // A record that has used up no number.
  void AddForeign(const InputDataRecord& record, const Status& why);
  Status ProcessGap(const InputDataRecord& record, const InputKey& key);
  // A flush, or the end of the stream.
  Status ProcessMark(const InputDataRecord& record, const InputKey& key);
  void ProcessRows(const InputDataRecord& record, const InputKey& key);
  // The record's rows from next_row_ on.
  void AddRows(const InputDataRecord& record, const InputKey& key);
  DeadLetter Letter(const InputDataRecord& record, const Status& why) const;
  std::string PlaceOf(const InputDataRecord& record) const;

  bool has_windows_ = false;
  RowWindow window_;  // without windows: the whole partition
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
