#include "processors/sliding_buffer_batches.h"

#include <algorithm>
#include <string>
#include <utility>

namespace millrace {

SlidingBufferBatches::SlidingBufferBatches(const SlidingBufferOptions& options,
                                           const RowShape& shape, TrainingBuffer& buffer)
    : options_(options), shape_(shape), buffer_(buffer), cache_(options.max_rows) {}

// (A row that cannot be used has a place without bytes.)
void SlidingBufferBatches::Add(RowNumber number, int64_t timestamp_ms, Row* row) {
  buffer_.Add(number, timestamp_ms, row == nullptr ? std::string() : EncodeRow(*row));
  CacheEntry& entry = EntryOf(number);
  entry.number = number;
  entry.decoded = row != nullptr;
  if (row != nullptr) std::swap(entry.row, *row);
}

const Row* SlidingBufferBatches::Decoded(const TrainingBuffer::Slot& slot) {
  CacheEntry& entry = EntryOf(slot.row);
  if (entry.number != slot.row) {  // it was restored
    entry.number = slot.row;
    entry.decoded = DecodeRow(slot.value, shape_, record_, entry.row).ok();
  }
  return entry.decoded ? &entry.row : nullptr;
}

StatusOr<BatchState> SlidingBufferBatches::Next(const Progress& progress, Batch& batch) {
  const RowNumber next_row = buffer_.size() == 0 ? RowNumber(0) : buffer_.newest().row + 1;
  const bool new_rows = next_row > progress.rows_end;
  if (!new_rows) {
    if (!end_) return BatchState::kWait;
    if (buffer_.size() == 0 || progress.updates_without_rows >= options_.rounds_after_end) {
      return BatchState::kLeave;
    }
  }
  const RowNumber first = options_.minibatch_rows == 0 || next_row < options_.minibatch_rows
                              ? RowNumber(0)
                              : next_row - options_.minibatch_rows;
  batch.rows.clear();
  batch.numbers.clear();
  batch.first_new = 0;
  batch.first_trained = 0;
  buffer_.ForEach([&](const TrainingBuffer::Slot& slot) {
    // New rows are tested and counted even where the mini-batch is smaller than what has come.
    if (slot.row < std::min(first, progress.rows_end)) return;
    const Row* row = Decoded(slot);
    if (row == nullptr) return;
    if (slot.row < progress.rows_end) ++batch.first_new;
    if (slot.row < first) ++batch.first_trained;
    batch.rows.push_back(row);
    batch.numbers.push_back(slot.row);
  });
  batch.rows_end = std::max(next_row, progress.rows_end);
  batch.dead_letters = dead_letters().Between(progress.rows_end, batch.rows_end);
  return BatchState::kReady;
}

// (Of no clock: how often the rows of the buffer have been used nobody can tell from them.)
SourceBegin SlidingBufferBatches::NeededFrom(const Progress& progress) const {
  const RowNumber next_row = buffer_.size() == 0 ? RowNumber(0) : buffer_.newest().row + 1;
  const uint64_t kept = options_.max_rows + ArrivalRate::kWindow + 1;
  // A restarted worker may compute an update of any row that is not counted yet.
  const RowNumber first_update = std::min(next_row, progress.rows_end);
  return {.row = first_update > kept ? first_update - kept : RowNumber(0)};
}

}  // namespace millrace
