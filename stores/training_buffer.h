// A worker's sliding buffer: the newest rows, as many as the arrival rate asks for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "base/types.h"
#include "stores/arrival_rate.h"
#include "stores/ordered_byte_map.h"

namespace millrace {

struct TrainingBufferOptions {
  size_t min_rows = 128;
  size_t max_rows = 1024;
  double coefficient = 0.3;
};

// Rows live in RocksDB on a reserved range of keys: slot s under "<prefix>" + 4 bytes big-endian,
// and the state of the arrival rate under "<prefix>" + 4 bytes of ones. No other key may begin
// with the prefix. A new row
//   (I)   fills an empty slot while the buffer is smaller than its target,
//   (II)  replaces the oldest when it is equal,
//   (III) after the oldest were deleted down to the target, replaces the oldest, when larger.
// targetBufferSize = clamp(min, max, coefficient * rows per minute), rounded down; without a rate:
// min. The rate includes the gap before the new row.
//
// Changes are collected in memory and written by WriteTo, so that a row that is overwritten before
// the next write never costs a disk write, and rows and position go out in one atomic batch.
// What the held bytes mean is not the buffer's business.
//
// The state is a pure function of the last max_rows + ArrivalRate::kWindow rows added, which is
// how many a task that moved reads back. Why so many are enough: the size after row i is the
// smallest of target(j) + i - j over the rows j <= i. Targets lie between min and max, so only the
// last max - min rows count, and the target of the first of them needs kWindow rows before it
// (kWindow gaps lie between kWindow + 1 rows). That makes max - min + kWindow rows, and never more
// than max + kWindow; the rate's own state is the last kWindow + 1 timestamps. Not thread-safe.
class TrainingBuffer {
 public:
  struct Slot {
    RowNumber row = 0;
    int64_t timestamp_ms = 0;
    std::string value;
  };

  // REQUIRES 1 <= min_rows <= max_rows <= kMaxRows and a coefficient >= 0.
  static constexpr size_t kMaxRows = size_t{1} << 24;
  TrainingBuffer(const TrainingBufferOptions& options, std::string key_prefix);

  // Adds the next row. REQUIRES row greater than any row before.
  void Add(RowNumber row, int64_t timestamp_ms, std::string_view value);

  size_t size() const { return size_; }
  size_t target() const { return target_; }
  // Visits the rows from the oldest to the newest.
  void ForEach(const std::function<void(const Slot&)>& visit) const;
  // REQUIRES size() > 0.
  const Slot& oldest() const {
    MILLRACE_CHECK(size_ > 0);
    return slots_[order_[first_]];
  }
  const Slot& newest() const {
    MILLRACE_CHECK(size_ > 0);
    return slots_[order_[Wrap(first_ + size_ - 1)]];
  }

  // Appends the changes since the last call to `batch` (slots written and deleted, and the state
  // of the arrival rate), and forgets them. The caller adds its position and writes the batch;
  // when that fails, the buffer on disk no longer follows this one, and Restore is the way back.
  void WriteTo(WriteBatch& batch);
  // Replaces the content by what `store` holds under the prefix. An empty range: an empty buffer.
  // Options other than those it was written with are fine: rows above the new target are dropped,
  // the oldest first. An entry that is damaged, unknown or missing is a DataLoss error that names
  // the key, and the buffer is as it was. (That a value's own bytes are right is the promise of
  // the store, whose blocks have checksums.)
  Status Restore(const OrderedByteMap& store);
  // Empties the buffer; the next WriteTo deletes all that `store` holds under the prefix. For a
  // task that cannot use the copy on this disk (damaged, or too old for the log).
  Status Clear(const OrderedByteMap& store);

 private:
  size_t Wrap(size_t place) const { return place < order_.size() ? place : place - order_.size(); }
  std::string SlotKey(uint32_t slot) const;
  void Resize(size_t slots);
  void UpdateTarget();
  void Evict();
  void MarkChanged(uint32_t slot);

  TrainingBufferOptions options_;
  std::string key_prefix_;
  ArrivalRate rate_;
  size_t target_;
  std::vector<Slot> slots_;            // max_rows (more after a Restore with a smaller max_rows)
  std::vector<uint8_t> is_used_;       // per slot
  std::vector<uint32_t> empty_slots_;  // to be filled, last first
  std::vector<uint32_t> order_;        // a ring of the slots in use, oldest first
  size_t first_ = 0;                   // in order_
  size_t size_ = 0;
  std::vector<uint8_t> is_changed_;  // per slot, since the last WriteTo
  std::vector<uint32_t> changed_;
  bool is_state_changed_ = false;        // since the last WriteTo
  std::vector<std::string> stale_keys_;  // to be deleted by the next WriteTo
};

}  // namespace millrace
