// The source of a worker's batches: the common interface of both schedules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
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
  RowNumber repeated_end = 0;      // see Progress; after this update
  std::vector<DeadLetter> dead_letters{};  // of the rows that this update is the first to count
};

// The progress of this worker, as the server reports it.
struct Progress {
  Clock clock = 0;
  RowNumber rows_end = 0;             // rows below have been counted
  uint64_t updates_without_rows = 0;  // accepted since the last that brought new rows
  // Sliding buffer of an online learner: rows below have been learnt from twice, or have left it.
  RowNumber repeated_end = 0;
};

enum class BatchState {
  kReady,
  kWait,   // no batch before more rows arrive
  kLeave,  // no further update: the stream has ended and its rows are used
};

// A row before which none is needed any more: they have been counted, and may have been deleted.
struct SourceBegin {
  RowNumber row = 0;
  Clock clock = 0;  // of the worker when they had been counted; its clock is not lower

  bool operator==(const SourceBegin&) const = default;
};

// Rows go in by number, without gaps. Not thread-safe.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  // The next row, decoded and checked; or null, for one that cannot be used: it uses up its number.
  // The source may take the row over and leave the memory of another: it is scratch afterwards.
  virtual void Add(RowNumber number, int64_t timestamp_ms, Row* row) = 0;
  // A record has come whole; it had so many rows.
  virtual void EndRecord(size_t /*rows*/) {}
  // The rows before this one, all of which have come, are not to wait for others.
  virtual void Flush(RowNumber /*row*/) {}
  // The stream has `row_count` rows.
  virtual void End(RowNumber row_count) = 0;
  // Whether it was, so that all of the stream has come.
  virtual bool HasEnd() const = 0;

  // The batch after this progress: what was reported, or what it will be when the updates in flight
  // are accepted. OutOfRange when rows are needed that were deleted.
  virtual StatusOr<BatchState> Next(const Progress& progress, Batch& batch) = 0;
  // What the server has reported last. `is_reply`: to a message of this worker, so that nobody else
  // has made it up. Returns whether it is believed; if not, the source waits for a reply.
  virtual bool Told(const Progress& /*progress*/, bool /*is_reply*/) { return true; }
  // No batch before this progress, which was reported, will be needed again.
  virtual void Forget(const Progress& progress) { dead_letters_.Forget(progress.rows_end); }

  // The rows of the batch that comes so many batches after the one that begins at this row, if all
  // of them are known and present; else none. Pointers as in Batch.
  virtual std::vector<const Row*> RowsOfBatchAt(RowNumber, size_t) const { return {}; }

  // Where it begins. Empty: unknown before the first row.
  virtual std::optional<SourceBegin> begin() const { return SourceBegin(); }
  // Whether the rows below this number have been received, so that updates may have counted them.
  // If not, the number was forged, or old rows are being read again.
  virtual bool Reaches(RowNumber) const { return true; }

  // Records that could not be used, whether they are rows or not.
  DeadLetters& dead_letters() { return dead_letters_; }
  const DeadLetters& dead_letters() const { return dead_letters_; }

  // The number of rows held, for the display.
  virtual size_t size() const = 0;
  // Whether it holds rows that are in no buffer, so that a saved buffer would not be all of it.
  virtual bool HoldsMore() const { return false; }
  // False while enough rows are held: reading more would only fill memory.
  virtual bool WantsRows() const = 0;
  // Rows before it are never needed again, not even by a task that starts in another process.
  virtual SourceBegin NeededFrom(const Progress& progress) const = 0;

 private:
  DeadLetters dead_letters_;
};

}  // namespace millrace
