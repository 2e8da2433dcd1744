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
  const bool may_wait = IsOnline() && !options_.skips_rows;
  if (may_wait && !std::exchange(has_decoded_all_, true)) {
    buffer_.ForEach([this](const TrainingBuffer::Slot& slot) { Decoded(slot); });
  }
  const RowNumber oldest = buffer_.size() == 0 ? number : buffer_.oldest().row;
  buffer_.Add(number, timestamp_ms, row == nullptr ? std::string() : EncodeRow(*row));
  if (may_wait) KeepWaiting(oldest, buffer_.oldest().row);
  CacheEntry& entry = EntryOf(number);
  entry.number = number;
  entry.decoded = row != nullptr;
  if (row != nullptr) std::swap(entry.row, *row);
}

void SlidingBufferBatches::KeepWaiting(RowNumber begin, RowNumber end) {
  for (RowNumber number = std::max(begin, counted_end_); number < end; ++number) {
    waiting_.push_back(std::move(EntryOf(number)));
    EntryOf(number).number.reset();
  }
}

const Row* SlidingBufferBatches::Decoded(const TrainingBuffer::Slot& slot) {
  CacheEntry& entry = EntryOf(slot.row);
  if (entry.number != slot.row) {  // it was restored
    entry.number = slot.row;
    entry.decoded = DecodeRow(slot.value, shape_, record_, entry.row).ok();
  }
  return entry.decoded ? &entry.row : nullptr;
}

void SlidingBufferBatches::EndRecord(size_t rows) {
  // (One short record among long ones says nothing of the next.)
  record_rows_ = std::max(rows, record_rows_ * 15 / 16);
}

bool SlidingBufferBatches::Told(const Progress& progress, bool is_reply) {
  is_in_doubt_ = !is_reply && !Reaches(progress.rows_end);
  if (is_in_doubt_) return false;
  counted_end_ = progress.rows_end;
  while (!waiting_.empty() && *waiting_.front().number < counted_end_) waiting_.pop_front();
  return true;
}

void SlidingBufferBatches::Forget(const Progress& progress) {
  if (!is_in_doubt_) BatchSource::Forget(progress);
}

bool SlidingBufferBatches::WantsRows() const {
  if (dead_letters().bytes() >= kMostDeadBytes) return false;
  const RowNumber next_row = NextRow();
  if (options_.skips_rows || next_row <= counted_end_) return true;
  return next_row - counted_end_ + record_rows_ <= buffer_.target();
}

RowNumber SlidingBufferBatches::FirstToRepeat(const Progress& progress) const {
  const RowNumber next_row = NextRow();
  // (A task that reads rows back has yet to come to those that are left.)
  if (!IsOnline() || buffer_.size() == 0 || next_row < progress.rows_end) return next_row;
  return std::clamp(progress.repeated_end, buffer_.oldest().row, next_row);
}

StatusOr<BatchState> SlidingBufferBatches::Next(const Progress& progress, Batch& batch) {
  const RowNumber next_row = NextRow();
  if (is_in_doubt_) return BatchState::kWait;
  if (next_row <= progress.rows_end && FirstToRepeat(progress) == next_row) {
    if (!end_) return BatchState::kWait;
    if (buffer_.size() == 0 || progress.updates_without_rows >= options_.rounds_after_end) {
      return BatchState::kLeave;
    }
  }
  batch.rows.clear();
  batch.numbers.clear();
  batch.first_new = 0;
  batch.first_trained = 0;
  batch.repeated_end = progress.repeated_end;
  IsOnline() ? FillOnline(progress, batch) : FillWhole(progress, batch);
  batch.dead_letters = dead_letters().Between(progress.rows_end, batch.rows_end);
  return BatchState::kReady;
}

void SlidingBufferBatches::FillWhole(const Progress& progress, Batch& batch) {
  const RowNumber next_row = NextRow();
  const RowNumber first = options_.minibatch_rows == 0 || next_row < options_.minibatch_rows
                              ? RowNumber(0)
                              : next_row - options_.minibatch_rows;
  // New rows are tested and counted even where the mini-batch is smaller than what has come.
  Append(std::min(first, progress.rows_end), next_row, progress, batch);
  batch.first_trained =
      static_cast<size_t>(std::ranges::lower_bound(batch.numbers, first) - batch.numbers.begin());
  batch.rows_end = std::max(next_row, progress.rows_end);
}

void SlidingBufferBatches::FillOnline(const Progress& progress, Batch& batch) {
  const RowNumber oldest = buffer_.oldest().row;
  const RowNumber next_row = NextRow();
  const RowNumber to_repeat = FirstToRepeat(progress);
  const bool has_new = next_row > progress.rows_end;
  const RowNumber first_kept = waiting_.empty() ? oldest : *waiting_.front().number;
  RowNumber begin = has_new ? std::max(progress.rows_end, first_kept) : to_repeat;
  if (begin == next_row) {  // a further round after the end: one part of the buffer after the other
    const uint64_t parts = (buffer_.size() - 1) / options_.online_rows + 1;
    begin = oldest + progress.updates_without_rows % parts * options_.online_rows;
  }
  const RowNumber end = std::min<RowNumber>(begin + options_.online_rows, next_row);
  for (const CacheEntry& entry : waiting_) {
    if (*entry.number < begin || *entry.number >= end || !has_new || !entry.decoded) continue;
    batch.rows.push_back(&entry.row);
    batch.numbers.push_back(*entry.number);
  }
  Append(begin, end, progress, batch);
  batch.rows_end = std::max(progress.rows_end, has_new ? end : RowNumber(0));
  if (!has_new) batch.repeated_end = std::max(progress.repeated_end, end);
}

void SlidingBufferBatches::Append(RowNumber begin, RowNumber end, const Progress& progress,
                                  Batch& batch) {
  buffer_.ForEach([&](const TrainingBuffer::Slot& slot) {
    if (slot.row < begin || slot.row >= end) return;
    const Row* row = Decoded(slot);
    if (row == nullptr) return;
    if (slot.row < progress.rows_end) ++batch.first_new;
    batch.rows.push_back(row);
    batch.numbers.push_back(slot.row);
  });
}

// (Of no clock: how often the rows of the buffer have been used nobody can tell from them.)
SourceBegin SlidingBufferBatches::NeededFrom(const Progress& progress) const {
  // What the rows do not bear out must not cost any of them.
  if (!Reaches(progress.rows_end)) return SourceBegin();
  const uint64_t kept = options_.max_rows + ArrivalRate::kWindow + 1;
  // A restarted worker may compute an update of any row that is not counted yet.
  return {.row = progress.rows_end > kept ? progress.rows_end - kept : RowNumber(0)};
}

}  // namespace millrace
