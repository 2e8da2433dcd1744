// Where a worker's batches come from: the one interface behind both schedules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "messages/records.pb.h"
#include "models/row.h"
#include "processors/dead_letters.h"

namespace millrace {

// The rows of one update. Pointers stay valid until the source is changed.
struct Batch {
  std::vector<const Row*> rows;    // in order of their numbers; rows that could not be decoded
  std::vector<RowNumber> numbers;  // are not among them
  size_t first_new = 0;            // rows[first_new..] have not been in an accepted update
  size_t first_trained = 0;        // rows[first_trained..] are trained on
  RowNumber rows_end = 0;          // rows below this number are counted by this update
  std::vector<DeadLetter> dead_letters{};  // of the rows that it is the first to count
};

// What the server last said about this worker.
struct Progress {
  Clock clock = 0;
  RowNumber rows_end = 0;             // rows below have been counted
  uint64_t updates_without_rows = 0;  // accepted since the last that brought new rows
};

enum class BatchState {
  kReady,
  kWait,   // rows must come first
  kLeave,  // no further update: the stream has ended and its rows are used
};

// Where a source begins: rows in front of it were deleted, or are needed by nobody.
struct SourceBegin {
  RowNumber row = 0;
  Clock clock = 0;  // the first whose batch needs none of them
};

// Rows go in by number, without gaps. Not thread-safe.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  // The next row: its record value and, parsed and checked, `row`; or, for a record that cannot be
  // decoded, `row` null: it uses up its number.
  virtual void Add(RowNumber number, int64_t timestamp_ms, std::string_view value,
                   const TrainingRow* row) = 0;
  // The stream ends in front of row `row_count`.
  virtual void End(RowNumber row_count) = 0;

  // OutOfRange when rows are needed that are no longer there.
  virtual StatusOr<BatchState> Next(const Progress& progress, Batch& batch) = 0;

  // Appends the ids of the rows of a batch to come, if all of them are there and it is known which
  // they will be.
  virtual void AppendIdsOf(Clock, std::vector<EmbeddingId>&) const {}

  // Empty: not known before the first row has come.
  virtual std::optional<SourceBegin> begin() const { return SourceBegin(); }
  // The rows that came bear out that the worker's updates have got to this clock. One of which they
  // do not was made up by somebody; or rows of long ago are being read again.
  virtual bool Reaches(Clock) const { return true; }

  // Records between and among the rows that could not be used.
  DeadLetters& dead_letters() { return dead_letters_; }
  const DeadLetters& dead_letters() const { return dead_letters_; }

  // Rows held, for the display.
  virtual size_t size() const = 0;
  // False while enough rows wait to be used: reading on would only fill memory.
  virtual bool WantsRows() const = 0;
  // Rows below this number are never needed again, not even by a task that starts anew elsewhere.
  virtual RowNumber NeededFrom(const Progress& progress) const = 0;

 private:
  DeadLetters dead_letters_;
};

}  // namespace millrace
