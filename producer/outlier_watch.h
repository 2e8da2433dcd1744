// Notices numbers that lie so far from all before them that they ruin the scaling of their column.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "models/row.h"

namespace millrace {

// The running deviation follows the largest distance: a value that is a thousand times as far away
// as the width of all others leaves these next to no difference after scaling. Compares each number
// with the least and the most of its column, which costs a stream nothing that can be measured.
class OutlierWatch {
 public:
  static constexpr uint64_t kRowsBefore = 1000;  // fewer tell nothing of a column
  static constexpr double kWidths = 1000;

  explicit OutlierWatch(size_t columns) : columns_(columns) {}

  struct Outlier {
    size_t column = 0;
    double value = 0;
    double least = 0;  // of the values before, as
    double most = 0;
  };
  // The first outlier of the row in a column that has had none; each column is told once.
  std::optional<Outlier> Observe(const Row& row);

 private:
  struct Column {
    uint64_t values = 0;
    double least = 0;
    double most = 0;
    bool told = false;
  };
  std::vector<Column> columns_;
};

}  // namespace millrace
