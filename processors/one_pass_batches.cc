#include "processors/one_pass_batches.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/batch_growth.h"
#include "base/check.h"

namespace millrace {
namespace {

// Rows that may wait: some batches, so that the reader is never what training waits for.
constexpr size_t kBatchesAhead = 8;
constexpr size_t kMinRowsAhead = 512;

}  // namespace

OnePassBatches::OnePassBatches(const OnePassOptions& options, std::optional<RowNumber> begin,
                               Clock clock)
    : options_(options), begin_(begin), begin_clock_(clock) {
  MILLRACE_CHECK(options.batch_rows >= 1);
  const bool grow = options.first_rows > 0 && options.first_rows < options.batch_rows;
  if (!grow) options_.first_rows = options.batch_rows;
}

RowNumber OnePassBatches::EndOfBatchAt(RowNumber begin) const {
  const uint64_t rows = std::clamp<uint64_t>(GrownBatchRows(uint64_t{begin}), options_.first_rows,
                                             options_.batch_rows);
  const auto flush = std::ranges::upper_bound(flushes_, begin);
  const RowNumber end = std::min<RowNumber>(begin + rows, end_.value_or(UINT64_MAX));
  return flush == flushes_.end() ? end : std::min(end, *flush);
}

// One that is repeated, or that no rows came before, cuts nothing.
void OnePassBatches::Flush(RowNumber row) {
  if (!options_.ends_at_flushes || !has_first_ || row <= first_) return;
  MILLRACE_CHECK(row == first_ + rows_.size());
  if (flushes_.empty() || flushes_.back() < row) flushes_.push_back(row);
}

void OnePassBatches::End(RowNumber row_count) {
  end_ = row_count;
  if (!begin_) begin_ = row_count;
}

std::optional<SourceBegin> OnePassBatches::begin() const {
  if (!begin_) return std::nullopt;
  return SourceBegin{*begin_, begin_clock_};
}

bool OnePassBatches::Reaches(RowNumber rows_end) const {
  return rows_end <= (has_first_ ? first_ + rows_.size() : begin_.value_or(0));
}

void OnePassBatches::Add(RowNumber number, int64_t, Row* row) {
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
  if (row != nullptr) std::swap(entry.row, *row);
}

void OnePassBatches::Forget(const Progress& progress) {
  BatchSource::Forget(progress);
  // The rows stay where no batch can follow: a number that somebody made up may be corrected.
  if (progress.rows_end >= EndOfBatchAt(progress.rows_end)) return;
  while (first_ < progress.rows_end && !rows_.empty()) {
    spare_.push_back(std::move(rows_.front().row));
    rows_.pop_front();
    ++first_;
    // A shard that has lost its state must not go on from rows that are gone.
    begin_ = std::max(*begin_, first_);
    begin_clock_ = std::max(begin_clock_, progress.clock);
  }
  while (!flushes_.empty() && flushes_.front() <= first_) flushes_.pop_front();
}

StatusOr<BatchState> OnePassBatches::Next(const Progress& progress, Batch& batch) {
  const RowNumber begin = progress.rows_end;
  // None may have come yet, and none before `begin_` will come.
  const RowNumber available = has_first_ ? first_ : begin_.value_or(0);
  if (begin < available) {
    return absl::OutOfRangeError("row " + std::to_string(begin) +
                                 " is needed, but the first row that is available is " +
                                 std::to_string(available));
  }
  const RowNumber end = EndOfBatchAt(begin);
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
  batch.repeated_end = 0;
  batch.dead_letters = dead_letters().Between(begin, end);
  return BatchState::kReady;
}

std::vector<const Row*> OnePassBatches::RowsOfBatchAt(RowNumber begin, size_t batches_on) const {
  for (size_t i = 0; i < batches_on; ++i) begin = EndOfBatchAt(begin);
  const RowNumber end = EndOfBatchAt(begin);
  std::vector<const Row*> rows;
  if (begin < first_ || end > first_ + rows_.size()) return rows;
  for (RowNumber number = begin; number < end; ++number) {
    const Entry& entry = rows_[number - first_];
    if (entry.decoded) rows.push_back(&entry.row);
  }
  return rows;
}

bool OnePassBatches::WantsRows() const {
  const size_t batches =
      kBatchesAhead + 2 * (options_.pipeline - 1);  // in flight, and named by them
  return rows_.size() < std::max(batches * options_.batch_rows, kMinRowsAhead);
}

SourceBegin OnePassBatches::NeededFrom(const Progress& progress) const {
  // What the rows do not bear out must not cost any of them.
  return Reaches(progress.rows_end) ? SourceBegin{progress.rows_end, progress.clock}
                                    : SourceBegin{};
}

}  // namespace millrace
