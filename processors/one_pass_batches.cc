#include "processors/one_pass_batches.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "topics/row_codec.h"

namespace millrace {
namespace {

// Rows that may wait: some batches, so that the reader is never what training waits for.
constexpr size_t kBatchesAhead = 8;
constexpr size_t kMinRowsAhead = 512;

}  // namespace

OnePassBatches::OnePassBatches(size_t batch_rows, std::optional<RowNumber> begin)
    : batch_rows_(batch_rows), begin_(begin) {
  MILLRACE_CHECK(batch_rows >= 1);
}

// Clocks come over the wire: of one that was made up this is a row that never comes.
RowNumber OnePassBatches::BeginOf(Clock clock) const {
  constexpr RowNumber kNever = RowNumber{1} << 60;
  return clock > kNever / batch_rows_ ? kNever : RowNumber(clock * batch_rows_);
}

void OnePassBatches::End(RowNumber row_count) {
  end_ = row_count;
  if (!begin_) begin_ = row_count;
}

std::optional<SourceBegin> OnePassBatches::begin() const {
  if (!begin_) return std::nullopt;
  return SourceBegin{*begin_, Clock((*begin_ + batch_rows_ - 1) / batch_rows_)};
}

bool OnePassBatches::Reaches(Clock clock) const {
  const RowNumber next = has_first_ ? first_ + rows_.size() : begin_.value_or(0);
  return clock == 0 || BeginOf(clock - 1) < next;
}

void OnePassBatches::Add(RowNumber number, int64_t, std::string_view, const TrainingRow* row) {
  if (!has_first_) first_ = number;
  if (!begin_) begin_ = number;
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
  const RowNumber begin = BeginOf(progress.clock);
  if (has_first_ && begin < first_) {
    return absl::OutOfRangeError("row " + std::to_string(begin) +
                                 " is needed, but the first row that is available is " +
                                 std::to_string(first_));
  }
  const RowNumber end = std::min<RowNumber>(begin + batch_rows_, end_.value_or(UINT64_MAX));
  // (The rows stay: a clock that somebody made up may be corrected.)
  if (begin >= end) return BatchState::kLeave;
  DropBelow(begin);
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
  batch.dead_letters = dead_letters().Between(progress.rows_end, end);
  return BatchState::kReady;
}

void OnePassBatches::AppendIdsOf(Clock clock, std::vector<EmbeddingId>& ids) const {
  const RowNumber begin = BeginOf(clock);
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
  // A clock that the rows do not bear out must not cost any of them.
  return Reaches(progress.clock) ? BeginOf(progress.clock) : RowNumber(0);
}

}  // namespace millrace
