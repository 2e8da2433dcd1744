#include "producer/outlier_watch.h"

#include <algorithm>
#include <cmath>

namespace millrace {

std::optional<OutlierWatch::Outlier> OutlierWatch::Observe(const Row& row) {
  std::optional<Outlier> found;
  for (size_t i = 0; i < columns_.size(); ++i) {
    Column& column = columns_[i];
    const double value = row.numeric[i];
    if (value >= column.least && value <= column.most && column.values > 0) {
      ++column.values;
      continue;
    }
    if (std::isnan(value)) continue;
    if (column.values++ == 0) {
      column.least = column.most = value;
      continue;
    }
    const double width = column.most - column.least;
    const double beyond = std::max(column.least - value, value - column.most);
    const bool far = width > 0 && beyond > kWidths * width;
    if (far && column.values > kRowsBefore && !column.told && !found) {
      column.told = true;
      found = {i, value, column.least, column.most};
    }
    column.least = std::min(column.least, value);
    column.most = std::max(column.most, value);
  }
  return found;
}

}  // namespace millrace
