#include "models/top_k.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/check.h"

namespace millrace {
namespace {

// What a server takes.
constexpr float kLargestTaken = 1e18f;

bool AllTaken(std::span<const float> values) {
  int beyond = 0;  // NaN compares as false
  for (const float value : values) beyond |= !(std::abs(value) <= kLargestTaken);
  return beyond == 0;
}

float SquaredNorm(std::span<const float> row) {
  float sum = 0;
  for (const float value : row) sum += value * value;
  return sum;
}

}  // namespace

TopK::TopK(double fraction, size_t parameter_count, size_t row_width, size_t kept_bytes)
    : fraction_(fraction),
      width_(row_width),
      most_rows_(kept_bytes / (sizeof(EmbeddingId) + sizeof(float) * row_width)),
      values_(parameter_count) {
  MILLRACE_CHECK(fraction > 0 && fraction <= 1);
}

size_t TopK::Part(size_t count) const {
  return std::min(count, static_cast<size_t>(std::ceil(fraction_ * static_cast<double>(count))));
}

const TopK::Chosen& TopK::Choose(GradientSum& gradient, std::span<const EmbeddingId> ids,
                                 std::span<const float> rows) {
  MILLRACE_CHECK(gradient.values().size() == values_.size());
  MILLRACE_CHECK(rows.size() == ids.size() * width_);
  MILLRACE_CHECK(std::ranges::adjacent_find(ids, std::greater_equal<>()) == ids.end());
  const std::span<const uint32_t> touched = gradient.SortedBlocks();
  const size_t block = gradient.block_size();
  for (const uint32_t b : touched) {
    for (size_t key = b * block; key < (b + size_t{1}) * block; ++key) {
      values_[key] += gradient.values()[key];
    }
  }
  AddRows(ids, rows);
  chosen_.keys.clear();
  chosen_.values.clear();
  chosen_.ids.clear();
  chosen_.rows.clear();
  if (IsSane()) {
    ChooseValues(Part(touched.size() * block));
    const size_t excess = ids_.size() - std::min(ids_.size(), most_rows_);
    ChooseRows(std::max(Part(ids.size()), excess));
  } else {
    ChooseValues(values_.size());
    ChooseRows(ids_.size());
  }
  return chosen_;
}

bool TopK::IsSane() const { return AllTaken(values_) && AllTaken(rows_); }

void TopK::AddRows(std::span<const EmbeddingId> ids, std::span<const float> rows) {
  if (ids.empty()) return;
  merged_ids_.clear();
  merged_rows_.clear();
  size_t old = 0;
  for (size_t i = 0; i <= ids.size(); ++i) {
    // Those kept in front of the next one that comes, in one piece.
    const size_t begin = old;
    while (old < ids_.size() && (i == ids.size() || ids_[old] < ids[i])) ++old;
    merged_ids_.insert(merged_ids_.end(), ids_.begin() + begin, ids_.begin() + old);
    merged_rows_.insert(merged_rows_.end(), rows_.begin() + begin * width_,
                        rows_.begin() + old * width_);
    if (i == ids.size()) break;
    const std::span<const float> row = rows.subspan(i * width_, width_);
    merged_ids_.push_back(ids[i]);
    merged_rows_.insert(merged_rows_.end(), row.begin(), row.end());
    if (old == ids_.size() || ids_[old] != ids[i]) continue;
    float* const to = merged_rows_.data() + (merged_ids_.size() - 1) * width_;
    for (size_t k = 0; k < width_; ++k) to[k] += rows_[old * width_ + k];
    ++old;
  }
  ids_.swap(merged_ids_);
  rows_.swap(merged_rows_);
}

TopK::Threshold TopK::ThresholdOf(size_t count) {
  const auto last = sizes_.begin() + static_cast<ptrdiff_t>(count - 1);
  std::nth_element(sizes_.begin(), last, sizes_.end(), std::greater<>());
  const float size = *last;
  const auto larger = std::count_if(sizes_.begin(), last, [size](float s) { return s > size; });
  return {size, count - static_cast<size_t>(larger)};
}

bool TopK::Takes(Threshold& threshold, float size) {
  if (size == threshold.size && threshold.equal > 0) {
    --threshold.equal;
    return true;
  }
  return !(size <= threshold.size);  // NaN, too
}

void TopK::ChooseValues(size_t count) {
  if (count == 0) return;
  sizes_.clear();
  for (const float value : values_) {
    if (value != 0.0f) sizes_.push_back(std::abs(value));
  }
  Threshold threshold;  // all but the zeros
  if (count < sizes_.size()) threshold = ThresholdOf(count);
  for (uint64_t key = 0; key < values_.size(); ++key) {
    if (!Takes(threshold, std::abs(values_[key]))) continue;
    chosen_.keys.push_back(key);
    chosen_.values.push_back(values_[key]);
    values_[key] = 0;
  }
}

void TopK::ChooseRows(size_t count) {
  if (count == 0) return;
  if (count >= ids_.size()) {
    chosen_.ids.swap(ids_);
    chosen_.rows.swap(rows_);
    return;
  }
  sizes_.clear();
  for (size_t i = 0; i < ids_.size(); ++i) {
    sizes_.push_back(SquaredNorm(std::span<const float>(rows_).subspan(i * width_, width_)));
  }
  const std::vector<float> norms = sizes_;
  Threshold threshold = ThresholdOf(count);
  size_t kept = 0;
  for (size_t i = 0; i < ids_.size(); ++i) {
    const auto row = rows_.begin() + static_cast<ptrdiff_t>(i * width_);
    const auto end = row + static_cast<ptrdiff_t>(width_);
    if (Takes(threshold, norms[i])) {
      chosen_.ids.push_back(ids_[i]);
      chosen_.rows.insert(chosen_.rows.end(), row, end);
    } else {
      ids_[kept] = ids_[i];
      std::copy(row, end, rows_.begin() + static_cast<ptrdiff_t>(kept * width_));
      ++kept;
    }
  }
  ids_.resize(kept);
  rows_.resize(kept * width_);
}

}  // namespace millrace
