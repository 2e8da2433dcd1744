#include "python/src/cell_table.h"

namespace millrace {

void CellTable::Clear() {
  text_.clear();
  ends_.clear();
}

void CellTable::Read(size_t row, std::vector<std::string_view>& cells) const {
  cells.resize(columns_);
  const size_t first = row * columns_;
  size_t begin = first == 0 ? 0 : ends_[first - 1];
  for (size_t i = 0; i < columns_; ++i) {
    const size_t end = ends_[first + i];
    cells[i] = std::string_view(text_).substr(begin, end - begin);
    begin = end;
  }
}

}  // namespace millrace
