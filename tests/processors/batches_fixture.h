// Rows for sources of batches, and what makes up a batch.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "processors/batch_source.h"
#include "topics/row_codec.h"

namespace millrace {

inline const RowShape kBatchesShape = {.numeric = 1, .features = 4, .classes = 2};

inline Row RowOf(RowNumber number) {
  return {static_cast<uint32_t>(number % 2), {static_cast<double>(number)}, {1, 3}, {0.5f, 1}};
}

inline void AddRow(BatchSource& source, RowNumber number) {
  Row row = RowOf(number);
  source.Add(number, static_cast<int64_t>(number), &row);
}

inline void AddRows(BatchSource& source, RowNumber begin, RowNumber end) {
  for (RowNumber number = begin; number < end; ++number) AddRow(source, number);
}

inline void AddDamaged(BatchSource& source, RowNumber number) {
  source.Add(number, static_cast<int64_t>(number), nullptr);
}

inline BatchState Next(BatchSource& source, const Progress& progress, Batch& batch) {
  const StatusOr<BatchState> state = source.Next(progress, batch);
  EXPECT_TRUE(state.ok()) << state.status();
  return state.value_or(BatchState::kWait);
}

// The numbers stand beside the rows that have them.
inline void ExpectRowsFitNumbers(const Batch& batch) {
  ASSERT_EQ(batch.rows.size(), batch.numbers.size());
  ASSERT_TRUE(std::is_sorted(batch.numbers.begin(), batch.numbers.end()));
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    ASSERT_EQ(*batch.rows[i], RowOf(batch.numbers[i]));
  }
}

}  // namespace millrace
