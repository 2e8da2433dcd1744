// Rows as messages::RowBatch, column by column: the content of a record of input-data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "messages/records.pb.h"
#include "models/row.h"

namespace millrace {

inline constexpr uint32_t kRowBatchFormat = 1;
// A record has at most so many rows; a reader refuses more.
inline constexpr uint32_t kMostBatchRows = 1000;
// Full at so many bytes: larger records are hardly cheaper. (One row may be larger by itself.)
inline constexpr size_t kFullBatchBytes = size_t{64} << 10;

// The sizes of a row's parts, which decoded rows are checked against.
struct RowShape {
  size_t numeric = 0;   // numeric columns
  size_t features = 0;  // without the bias
  size_t classes = 0;   // 0: a regression
  size_t ids = 0;       // of embedding rows
};

// At least what a record with this row alone takes.
size_t EncodedBytesOf(const Row& row);

// Puts rows together. It keeps its memory from batch to batch. Not thread-safe.
class RowBatchEncoder {
 public:
  uint32_t rows() const { return rows_; }
  // Whether the row may be added: the batch has room, or none yet, and is of the same epoch.
  bool Takes(const Row& row) const;
  bool full() const { return rows_ >= kMostBatchRows || bytes_ >= kFullBatchBytes; }
  // REQUIRES Takes(row), and a row with as many columns as the others.
  void Add(const Row& row);
  // Appends the InputRecord of the batch to `bytes`; the encoder is empty afterwards. REQUIRES
  // rows.
  void Finish(std::string& bytes);

 private:
  InputRecord record_;
  uint32_t rows_ = 0;
  size_t bytes_ = 0;  // at least what their values take
};

// Whether its columns are those of the job and have as many values as it has rows. InvalidArgument
// with the reason. (What the rows hold RowBatchReader checks.)
Status CheckRowBatch(const RowBatch& batch, const RowShape& shape);

// Reads the rows of a batch one after the other. Without allocation when warm; not thread-safe.
class RowBatchReader {
 public:
  // REQUIRES a batch that CheckRowBatch(batch, shape) takes; it stays as it is while it is read.
  void Begin(const RowBatch& batch, const RowShape& shape);
  // Overwrites all of `row`. InvalidArgument: this one cannot be used, and `row` is as it was sent;
  // the next may be read. REQUIRES that there is a next.
  Status Next(Row& row);
  // Passes over rows. REQUIRES that there are so many.
  void Skip(uint32_t rows);
  // When the next row happened, milliseconds; `record_time_ms` if the batch does not tell.
  int64_t TimeOfNext(int64_t record_time_ms) const;

 private:
  struct Column {
    const double* wide;   // one of the two
    const float* narrow;  // is null
  };
  size_t FeaturesOf(uint32_t row) const;

  const RowBatch* batch_ = nullptr;
  RowShape shape_;
  std::vector<Column> numeric_;
  uint32_t next_ = 0;
  size_t next_feature_ = 0;
};

}  // namespace millrace
