// Each row once: the batch of clock c is rows [c * b, (c + 1) * b), so that a repeated update has
// the same bytes.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>

#include "processors/batch_source.h"

namespace millrace {

class OnePassBatches final : public BatchSource {
 public:
  // REQUIRES batch_rows >= 1. `begin`: the number of the first row that will be added, if it is
  // known.
  explicit OnePassBatches(size_t batch_rows, std::optional<RowNumber> begin = std::nullopt);

  void Add(RowNumber number, int64_t timestamp_ms, std::string_view value,
           const TrainingRow* row) override;
  void End(RowNumber row_count) override;
  StatusOr<BatchState> Next(const Progress& progress, Batch& batch) override;
  void AppendIdsOf(Clock clock, std::vector<EmbeddingId>& ids) const override;
  std::optional<SourceBegin> begin() const override;
  bool Reaches(Clock clock) const override;
  size_t size() const override { return rows_.size(); }
  bool WantsRows() const override;
  RowNumber NeededFrom(const Progress& progress) const override;

 private:
  struct Entry {
    bool decoded = false;
    Row row;
  };
  void DropBelow(RowNumber number);
  // The first row of the clock's batch.
  RowNumber BeginOf(Clock clock) const;

  size_t batch_rows_;
  RowNumber first_ = 0;  // number of rows_.front(); of the next row when there is none
  bool has_first_ = false;
  std::deque<Entry> rows_;
  std::vector<Row> spare_;          // used rows, kept for their memory
  std::optional<RowNumber> begin_;  // of all rows, added or still to be added
  std::optional<RowNumber> end_;
};

}  // namespace millrace
