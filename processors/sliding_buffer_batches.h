// The sliding buffer's rows as the batch, again at each new weights message.
#pragma once

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
  uint64_t rounds_after_end = 0;  // further rounds on the last buffer
};

// Has a batch only if rows have arrived since the last accepted update; after the stream's end for
// `rounds_after_end` further rounds, then the worker leaves. The caller owns the buffer.
class SlidingBufferBatches final : public BatchSource {
 public:
  SlidingBufferBatches(const SlidingBufferOptions& options, const RowShape& shape,
                       TrainingBuffer& buffer);

  void Add(RowNumber number, int64_t timestamp_ms, Row* row) override;
  void End(RowNumber row_count) override { end_ = row_count; }
  StatusOr<BatchState> Next(const Progress& progress, Batch& batch) override;
  size_t size() const override { return buffer_.size(); }
  bool WantsRows() const override { return dead_letters().bytes() < kMostDeadBytes; }
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
  const Row* Decoded(const TrainingBuffer::Slot& slot);

  SlidingBufferOptions options_;
  RowShape shape_;
  TrainingBuffer& buffer_;
  std::optional<RowNumber> end_;
  InputRecord record_;  // scratch
  // Decoded rows, by number modulo max_rows: the buffer holds at most so many consecutive rows.
  std::vector<CacheEntry> cache_;
};

}  // namespace millrace
