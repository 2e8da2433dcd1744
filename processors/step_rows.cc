#include "processors/step_rows.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/radix_sort.h"

namespace millrace {
namespace {

struct AskedId {
  EmbeddingId id;
  uint32_t place;
};

// The places in `ids`, ascending by the ids there; those of equal ids in their order.
std::vector<uint32_t> PlacesInOrder(std::span<const EmbeddingId> ids) {
  MILLRACE_CHECK(ids.size() <= UINT32_MAX);
  std::vector<AskedId> asked;
  asked.reserve(ids.size());
  for (const EmbeddingId id : ids) asked.push_back({id, static_cast<uint32_t>(asked.size())});
  constexpr size_t kFew = 256;  // are faster by comparison
  if (ids.size() < kFew) {
    std::ranges::stable_sort(asked, {}, &AskedId::id);
  } else {
    RadixSort(asked, [](const AskedId& each) { return each.id; });
  }
  std::vector<uint32_t> places;
  places.reserve(ids.size());
  for (const AskedId& each : asked) places.push_back(each.place);
  return places;
}

}  // namespace

void AddRows(StepRows more, std::span<const NamedTable> tables, StepRows& rows) {
  if (more.ids.empty()) return;
  if (rows.ids.empty()) {
    rows = std::move(more);
    return;
  }
  if (rows.ids.back() < more.ids.front()) {
    rows.ids.insert(rows.ids.end(), more.ids.begin(), more.ids.end());
    rows.values.insert(rows.values.end(), more.values.begin(), more.values.end());
    return;
  }
  StepRows all;
  all.ids.reserve(rows.ids.size() + more.ids.size());
  all.values.reserve(rows.values.size() + more.values.size());
  const float* old = rows.values.data();
  const float* added = more.values.data();
  for (size_t i = 0, k = 0; i < rows.ids.size() || k < more.ids.size();) {
    const bool has_old =
        k == more.ids.size() || (i < rows.ids.size() && rows.ids[i] <= more.ids[k]);
    const bool has_added =
        i == rows.ids.size() || (k < more.ids.size() && more.ids[k] <= rows.ids[i]);
    const EmbeddingId id = has_old ? rows.ids[i++] : more.ids[k];
    k += has_added ? 1 : 0;
    all.ids.push_back(id);
    const size_t width = tables[TableOf(id)].width;
    const float*& first = has_old ? old : added;
    all.values.insert(all.values.end(), first, first + width);
    first += width;
    if (!has_old || !has_added) continue;
    float* const sum = all.values.data() + all.values.size() - width;
    for (size_t column = 0; column < width; ++column) sum[column] += added[column];
    added += width;
  }
  MILLRACE_CHECK(old == rows.values.data() + rows.values.size());
  MILLRACE_CHECK(added == more.values.data() + more.values.size());
  rows = std::move(all);
}

AskedRows::AskedRows(std::vector<EmbeddingId> ids)
    : ids_(std::move(ids)), order_(PlacesInOrder(ids_)) {
  distinct_.reserve(ids_.size());
  for (size_t k = 0; k < order_.size(); ++k) {
    if (!IsRepeated(k)) distinct_.push_back(ids_[order_[k]]);
  }
}

void AskedRows::Spread(std::span<const float> values, size_t stride, size_t width,
                       std::span<float> rows) const {
  MILLRACE_CHECK(width <= stride && values.size() == distinct_.size() * stride);
  MILLRACE_CHECK(rows.size() == ids_.size() * width);
  const float* next = values.data();
  const float* row = next;
  for (size_t k = 0; k < order_.size(); ++k) {
    if (!IsRepeated(k)) row = std::exchange(next, next + stride);
    std::copy_n(row, width, rows.data() + order_[k] * width);
  }
}

StepRows AskedRows::SumsOf(std::span<const float> rows, size_t width) const {
  MILLRACE_CHECK(rows.size() == ids_.size() * width);
  StepRows sums{.ids = distinct_};
  sums.values.reserve(distinct_.size() * width);
  for (size_t k = 0; k < order_.size(); ++k) {
    const float* const row = rows.data() + order_[k] * width;
    if (!IsRepeated(k)) {
      sums.values.insert(sums.values.end(), row, row + width);
      continue;
    }
    float* const sum = sums.values.data() + sums.values.size() - width;
    for (size_t column = 0; column < width; ++column) sum[column] += row[column];
  }
  return sums;
}

}  // namespace millrace
