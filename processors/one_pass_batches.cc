#include "processors/one_pass_batches.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "topics/codec.h"

namespace millrace {
namespace {

// Rows that may wait: some batches, so that the reader is never what training waits for.
constexpr size_t kBatchesAhead = 8;
constexpr size_t kMinRowsAhead = 512;

}  // namespace

OnePassBatches::OnePassBatches(size_t batch_rows) : batch_rows_(batch_rows) {
  MILLRACE_CHECK(batch_rows >= 1);
}

void OnePassBatches::Add(RowNumber number, int64_t, std::string_view, const TrainingRow* row) {
  if (!has_first_) first_ = number;
  has_first_ = true;
  MILLRACE_CHECK(number == first_ + rows_.size());
  Entry& entry = rows_.emplace_back();
  if (!spare_.empty()) {
    entry.row = std::move(spare_.back());
    spare_.pop_back();
  }
  entry.decoded = row != nullptr;
  if (row != nullptr) ToRow(*row, entry.row);
}

void OnePassBatches::DropBelow(RowNumber number) {
  while (first_ < number && !rows_.empty()) {
    spare_.push_back(std::move(rows_.front().row));
    rows_.pop_front();
    ++first_;
  }
}

StatusOr<BatchState> OnePassBatches::Next(const Progress& progress, Batch& batch) {
  const RowNumber begin = progress.clock * batch_rows_;
  if (has_first_ && begin < first_) {
    return absl::OutOfRangeError("row " + std::to_string(begin) +
                                 " is needed, but the first row there is " +
                                 std::to_string(first_));
  }
  DropBelow(begin);
  const RowNumber end = std::min<RowNumber>(begin + batch_rows_, end_.value_or(UINT64_MAX));
  if (begin >= end) return BatchState::kLeave;
  if (end > first_ + rows_.size()) return BatchState::kWait;
  batch.rows.clear();
  batch.numbers.clear();
  for (RowNumber number = begin; number < end; ++number) {
    const Entry& entry = rows_[number - first_];
    if (!entry.decoded) continue;
    batch.rows.push_back(&entry.row);
    batch.numbers.push_back(number);
  }
  batch.first_new = 0;
  batch.first_trained = 0;
  batch.rows_end = end;
  return BatchState::kReady;
}

void OnePassBatches::AppendIdsOf(Clock clock, std::vector<EmbeddingId>& ids) const {
  const RowNumber begin = clock * batch_rows_;
  const RowNumber end = std::min<RowNumber>(begin + batch_rows_, end_.value_or(UINT64_MAX));
  if (begin < first_ || end > first_ + rows_.size()) return;
  for (RowNumber number = begin; number < end; ++number) {
    const Row& row = rows_[number - first_].row;
    if (rows_[number - first_].decoded) ids.insert(ids.end(), row.ids.begin(), row.ids.end());
  }
}

bool OnePassBatches::WantsRows() const {
  return rows_.size() < std::max(kBatchesAhead * batch_rows_, kMinRowsAhead);
}

RowNumber OnePassBatches::NeededFrom(const Progress& progress) const {
  return progress.clock * batch_rows_;
}

}  // namespace millrace
