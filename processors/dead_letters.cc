#include "processors/dead_letters.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"

namespace millrace {
namespace {

size_t BytesOf(const DeadLetter& letter) { return letter.key().size() + letter.value().size(); }

}  // namespace

// The newest kMostForeign are no rows, and stand at this number.
bool DeadLetters::IsFull(RowNumber row) const {
  if (letters_.size() < kMostForeign) return false;
  return std::all_of(letters_.end() - kMostForeign, letters_.end(),
                     [row](const Entry& entry) { return !entry.is_row && entry.row == row; });
}

void DeadLetters::Add(RowNumber row, bool is_row, DeadLetter letter) {
  MILLRACE_CHECK(letters_.empty() || letters_.back().row <= row);
  if (!is_row && IsFull(row)) {
    ++letters_.back().left_out;
    return;
  }
  bytes_ += BytesOf(letter);
  letters_.push_back({row, is_row, 0, std::move(letter)});
}

std::vector<DeadLetter> DeadLetters::Between(RowNumber begin, RowNumber end) const {
  std::vector<DeadLetter> letters;
  for (const Entry& entry : letters_) {
    if (entry.row < begin || entry.row >= end) continue;
    DeadLetter& letter = letters.emplace_back(entry.letter);
    if (entry.left_out == 0) continue;
    letter.mutable_reason()->append("; " + std::to_string(entry.left_out) +
                                    " more records after it are not rows either");
  }
  return letters;
}

void DeadLetters::Forget(RowNumber row) {
  while (!letters_.empty() && letters_.front().row < row) {
    bytes_ -= BytesOf(letters_.front().letter);
    letters_.pop_front();
  }
}

std::optional<RowNumber> DeadLetters::First() const {
  if (letters_.empty()) return std::nullopt;
  return letters_.front().row;
}

void DeadLetters::Save(RowNumber end, BufferPosition& saved) const {
  for (const Entry& entry : letters_) {
    if (entry.row >= end) continue;
    BufferPosition::Dead& dead = *saved.add_dead();
    dead.set_row(entry.row);
    dead.set_is_row(entry.is_row);
    dead.set_left_out(entry.left_out);
    *dead.mutable_letter() = entry.letter;
  }
}

void DeadLetters::Restore(const BufferPosition& saved) {
  for (const BufferPosition::Dead& dead : saved.dead()) {
    if (!letters_.empty() && dead.row() < letters_.back().row) continue;  // not as it was saved
    bytes_ += BytesOf(dead.letter());
    letters_.push_back({RowNumber(dead.row()), dead.is_row(), dead.left_out(), dead.letter()});
  }
}

}  // namespace millrace
