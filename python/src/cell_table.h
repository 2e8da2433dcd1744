// The cells of some rows, as text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

// Rows of the same number of cells, one behind the other. Not thread-safe.
class CellTable {
 public:
  explicit CellTable(size_t columns) : columns_(columns) {}

  size_t rows() const { return ends_.size() / columns_; }
  void Clear();

  // Takes the text of the next cell at its end; EndCell() ends the cell.
  std::string& text() { return text_; }
  void EndCell() { ends_.push_back(text_.size()); }

  // The cells of a row; valid until the table changes. REQUIRES: row < rows().
  void Read(size_t row, std::vector<std::string_view>& cells) const;

 private:
  const size_t columns_;  // at least 1
  std::string text_;
  std::vector<size_t> ends_;  // of each cell, in text_
};

}  // namespace millrace
