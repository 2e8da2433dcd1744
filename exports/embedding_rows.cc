#include "exports/embedding_rows.h"

#include <algorithm>
#include <cstdint>

#include "base/initial_row.h"

namespace millrace {
namespace {

constexpr uint32_t kTable = 0;  // a job has one

// Of the values of a new row.
std::vector<float> LimitsOf(const ModelShape& shape) {
  std::vector<float> limits(shape.row_width(), shape.row_limit());
  std::fill_n(limits.begin(), shape.row_zeros(), 0.0f);
  return limits;
}

}  // namespace

std::vector<float> EmbeddingRowsOf(const ExportedModel& model, std::span<const EmbeddingId> ids) {
  const ModelShape& shape = model.description.shape();
  const std::vector<float> limits = LimitsOf(shape);
  const size_t width = limits.size();
  std::vector<float> rows(ids.size() * width);
  auto at = model.ids.begin();
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::span<float> row = std::span(rows).subspan(i * width, width);
    at = std::lower_bound(at, model.ids.end(), ids[i]);
    if (at == model.ids.end() || *at != ids[i]) {
      DrawInitialValues(shape.row_seed(), kTable, ids[i], limits, row);
      continue;
    }
    std::copy_n(model.rows.begin() + (at - model.ids.begin()) * static_cast<ptrdiff_t>(width),
                width, row.begin());
  }
  return rows;
}

}  // namespace millrace
