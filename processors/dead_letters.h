// Records of input-data that could not be used, until the update that counts them was accepted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/types.h"
#include "messages/records.pb.h"

namespace millrace {

// Each has a row number: its own, or that of the next row if the record is not a row. Of the latter
// kMostForeign are kept per number, and the count of the others: another program may write any
// number of such records, and they are only sent with the next row. Not thread-safe.
class DeadLetters {
 public:
  static constexpr size_t kMostForeign = 100;

  // REQUIRES row >= the row of the previous letter. `is_row`: the record has used up its number.
  void Add(RowNumber row, bool is_row, DeadLetter letter);
  // The letters of rows in [begin, end), to be sent with the update that counts those rows.
  std::vector<DeadLetter> Between(RowNumber begin, RowNumber end) const;
  // Drops the letters of rows below `row`: they have been counted.
  void Forget(RowNumber row);
  // The row of the oldest letter.
  std::optional<RowNumber> First() const;
  size_t size() const { return letters_.size(); }
  size_t bytes() const { return bytes_; }

  // Saves the letters of rows below `end`: the others are read again.
  void Save(RowNumber end, BufferPosition& saved) const;
  void Restore(const BufferPosition& saved);

 private:
  struct Entry {
    RowNumber row = 0;
    bool is_row = false;
    uint64_t left_out = 0;  // further records at this number that are not rows
    DeadLetter letter{};
  };
  bool IsFull(RowNumber row) const;

  std::deque<Entry> letters_;
  size_t bytes_ = 0;  // of their keys and values
};

}  // namespace millrace
