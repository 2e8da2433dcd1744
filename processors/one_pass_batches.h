// Each row once: a batch is the rows from the first that no update has counted on, b of them or
// those up to the end. Shard 0's state says which that is, so a repeated update has the same bytes.
//
// Where batches grow, one that begins at row r has GrownBatchRows(r) rows, but at least those of
// the first batch and at most batch_rows. The first rows change a model most, and the workers of a
// round do not know of each other's: so there are many short rounds first, and the rows that a
// worker learns from without the others' are few beside those that all know.
//
// Where flushes count, a batch that has begun before one ends there. They stand between the rows in
// the log, so they are the same whenever the rows are read.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>

#include "processors/batch_source.h"

namespace millrace {

struct OnePassOptions {
  size_t batch_rows = 1;  // at least 1
  size_t first_rows = 0;  // of the first batches, which grow from there; 0: all have batch_rows
  size_t pipeline = 1;    // updates that may be in flight
  bool ends_at_flushes = false;  // else Flush does nothing
};

class OnePassBatches final : public BatchSource {
 public:
  // `begin`: the number of the first row that will be added, if it is known, or of a later one:
  // those before it may be added, and have been counted. `clock`: of the worker when they had been.
  explicit OnePassBatches(const OnePassOptions& options,
                          std::optional<RowNumber> begin = std::nullopt, Clock clock = Clock(0));

  void Add(RowNumber number, int64_t timestamp_ms, Row* row) override;
  void Flush(RowNumber row) override;
  void End(RowNumber row_count) override;
  bool HasEnd() const override { return end_.has_value(); }
  StatusOr<BatchState> Next(const Progress& progress, Batch& batch) override;
  void Forget(const Progress& progress) override;
  std::vector<const Row*> RowsOfBatchAt(RowNumber begin, size_t batches_on) const override;
  std::optional<SourceBegin> begin() const override;
  bool Reaches(RowNumber rows_end) const override;
  size_t size() const override { return rows_.size(); }
  bool WantsRows() const override;
  SourceBegin NeededFrom(const Progress& progress) const override;

 private:
  struct Entry {
    bool decoded = false;
    Row row;
  };
  RowNumber EndOfBatchAt(RowNumber begin) const;

  OnePassOptions options_;
  RowNumber first_ = 0;  // number of rows_.front(); of the next row when there is none
  bool has_first_ = false;
  std::deque<Entry> rows_;
  std::vector<Row> spare_;  // used rows, kept for their memory
  // Of all rows, added or still to be added, that are not forgotten; and the clock at which those
  // before had been counted.
  std::optional<RowNumber> begin_;
  Clock begin_clock_;
  std::deque<RowNumber> flushes_;  // ascending; none before first_
  std::optional<RowNumber> end_;
};

}  // namespace millrace
