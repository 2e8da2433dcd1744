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

// Each stands at a row number: its own, or that of the next row when it is no row. Of the latter
// kMostForeign are kept at a number, and how many more there were: anybody may write such records,
// and until the next row comes nobody can take them. Not thread-safe.
class DeadLetters {
 public:
  static constexpr size_t kMostForeign = 100;

  // REQUIRES row >= that of the letter before. `is_row`: the record has used up its number.
  void Add(RowNumber row, bool is_row, DeadLetter letter);
  // Those of rows in [begin, end), to travel with the update that counts those rows.
  std::vector<DeadLetter> Between(RowNumber begin, RowNumber end) const;
  // Forgets those of rows below `row`: they have been counted.
  void Forget(RowNumber row);
  // The row of the oldest.
  std::optional<RowNumber> First() const;
  size_t size() const { return letters_.size(); }
  size_t bytes() const { return bytes_; }

  // Saves those of rows below `end`: the others are read again.
  void Save(RowNumber end, BufferPosition& saved) const;
  void Restore(const BufferPosition& saved);

 private:
  struct Entry {
    RowNumber row = 0;
    bool is_row = false;
    uint64_t left_out = 0;  // further ones at this number that are no rows
    DeadLetter letter{};
  };
  bool IsFull(RowNumber row) const;

  std::deque<Entry> letters_;
  size_t bytes_ = 0;  // of their keys and values
};

}  // namespace millrace
