// Batches of the sliding buffer's rows, which are used repeatedly.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

#include "messages/records.pb.h"
#include "processors/batch_source.h"
#include "stores/training_buffer.h"
#include "topics/row_codec.h"

namespace millrace {

struct SlidingBufferOptions {
  size_t max_rows = 1024;         // of the buffer
  size_t minibatch_rows = 0;      // the newest so many; 0: all
  uint64_t rounds_after_end = 0;  // further rounds on the last buffer, at least
  // Of an online learner: the rows of an update. 0: it is none, and uses all of the buffer.
  size_t online_rows = 0;
  bool skips_rows = false;  // newer rows may replace those that no update has used
};

// What the batch is, if rows have come since the last accepted update: the whole buffer, or of an
// online learner the next `online_rows` of those rows, as each of them is learnt from once. While
// none come, an online learner learns from what is in the buffer once more, `online_rows` at a
// time, beginning where Progress::repeated_end says; then there is no batch before the next row.
// After the stream's end the worker leaves, when this is done and `rounds_after_end` updates
// without new rows were accepted. The caller owns the buffer.
class SlidingBufferBatches final : public BatchSource {
 public:
  SlidingBufferBatches(const SlidingBufferOptions& options, const RowShape& shape,
                       TrainingBuffer& buffer);

  void Add(RowNumber number, int64_t timestamp_ms, Row* row) override;
  void End(RowNumber row_count) override { end_ = row_count; }
  bool HasEnd() const override { return end_.has_value(); }
  StatusOr<BatchState> Next(const Progress& progress, Batch& batch) override;
  size_t size() const override { return buffer_.size(); }
  bool Reaches(RowNumber rows_end) const override {
    return rows_end <= std::max(NextRow(), end_.value_or(0));
  }
  // False, too, while the buffer has no room for the next record beside the rows that no update has
  // counted, unless rows are skipped. The next record is taken to be as long as the last ones.
  bool WantsRows() const override;
  bool HoldsMore() const override { return !waiting_.empty(); }
  void EndRecord(size_t rows) override;
  bool Told(const Progress& progress, bool is_reply) override;
  void Forget(const Progress& progress) override;
  // The content of the buffer follows from the last max_rows + ArrivalRate::kWindow rows, also at
  // the next update of a new task.
  SourceBegin NeededFrom(const Progress& progress) const override;

 private:
  // Of rows that cannot be decoded and that no accepted update has counted.
  static constexpr size_t kMostDeadBytes = size_t{64} << 20;

  struct CacheEntry {
    std::optional<RowNumber> number;
    bool decoded = false;
    Row row;
  };
  CacheEntry& EntryOf(RowNumber number) { return cache_[number % cache_.size()]; }
  // Keeps those of the rows [begin, end), which have left the buffer, that no update has counted.
  void KeepWaiting(RowNumber begin, RowNumber end);
  const Row* Decoded(const TrainingBuffer::Slot& slot);
  bool IsOnline() const { return options_.online_rows > 0; }
  // The number after that of the newest row.
  RowNumber NextRow() const {
    return buffer_.size() == 0 ? RowNumber(0) : RowNumber(buffer_.newest().row + 1);
  }
  // The first row of the buffer that is to be learnt from once more; NextRow() if none is.
  RowNumber FirstToRepeat(const Progress& progress) const;
  void FillWhole(const Progress& progress, Batch& batch);
  void FillOnline(const Progress& progress, Batch& batch);
  // Adds the buffer's rows [begin, end).
  void Append(RowNumber begin, RowNumber end, const Progress& progress, Batch& batch);

  SlidingBufferOptions options_;
  RowShape shape_;
  TrainingBuffer& buffer_;
  std::optional<RowNumber> end_;
  // As was told last, and is believed. What is beyond the rows that have come is not, until the
  // server replies so: it may have been made up, and rows would be lost that no update has counted.
  RowNumber counted_end_ = 0;
  bool is_in_doubt_ = false;      // what was told last is not believed
  bool has_decoded_all_ = false;  // of a buffer that was restored
  size_t record_rows_ = 1;        // about the most of the last records
  InputRecord record_;            // scratch
  // Of an online learner that skips none: rows that no update has counted and that have left the
  // buffer, in order; the buffer's rows follow. As many as came in one record, about.
  std::deque<CacheEntry> waiting_;
  // Decoded rows, by number modulo max_rows: the buffer holds at most so many consecutive rows.
  std::vector<CacheEntry> cache_;
};

}  // namespace millrace
