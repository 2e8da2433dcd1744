// Records of input-data for tests, and a source that remembers what it was given.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "processors/batch_source.h"
#include "tests/processors/batches_fixture.h"
#include "topics/row_codec.h"

namespace millrace {

// Remembers what it was given.
class RecordingSource final : public BatchSource {
 public:
  struct Added {
    RowNumber number;
    int64_t timestamp_ms;
    std::optional<Row> row;
  };

  void Add(RowNumber number, int64_t timestamp_ms, Row* row) override {
    added.push_back({number, timestamp_ms, std::nullopt});
    if (row != nullptr) added.back().row = *row;
  }
  void Flush(RowNumber row) override { flushes.push_back(row); }
  void End(RowNumber row_count) override { ends.push_back(row_count); }
  bool HasEnd() const override { return !ends.empty(); }
  StatusOr<BatchState> Next(const Progress&, Batch&) override { return BatchState::kWait; }
  size_t size() const override { return added.size(); }
  bool WantsRows() const override { return true; }
  SourceBegin NeededFrom(const Progress&) const override { return {}; }

  std::vector<RowNumber> numbers() const {
    std::vector<RowNumber> numbers;
    for (const Added& row : added) numbers.push_back(row.number);
    return numbers;
  }

  std::vector<Added> added;
  std::vector<RowNumber> flushes;
  std::vector<RowNumber> ends;
};

inline std::string InputKeyOf(RowNumber number, uint32_t count = 1) {
  return EncodeInputKey({number, count});
}

// Rows [begin, end) as one record.
inline std::string InputValueOf(RowNumber begin, RowNumber end) {
  RowBatchEncoder batch;
  for (RowNumber number = begin; number < end; ++number) batch.Add(RowOf(number));
  return EncodeRows(batch);
}

}  // namespace millrace
