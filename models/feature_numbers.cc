#include "models/feature_numbers.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace millrace {
namespace {

size_t CountOf(RowsView rows) {
  size_t count = 0;
  for (const Row* row : rows) count += row->index.size();
  return count;
}

// The features that the rows name: ascending, distinct.
std::vector<uint32_t> FeaturesOf(RowsView rows) {
  std::vector<uint32_t> features;
  features.reserve(CountOf(rows));
  for (const Row* row : rows) features.insert(features.end(), row->index.begin(), row->index.end());
  std::ranges::sort(features);
  features.erase(std::ranges::unique(features).begin(), features.end());
  return features;
}

// Those of `ids` that the rows name: all of them when the ids are the batch's own.
std::vector<size_t> Named(RowsView rows, std::span<const EmbeddingId> ids) {
  std::vector<size_t> named;
  if (ids.size() <= CountOf(rows)) {
    named.resize(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) named[i] = i;
    return named;
  }
  for (const uint32_t feature : FeaturesOf(rows)) {
    const auto found = std::ranges::lower_bound(ids, EmbeddingId{feature});
    MILLRACE_CHECK(found != ids.end() && *found == feature);
    named.push_back(static_cast<size_t>(found - ids.begin()));
  }
  return named;
}

// The number of each feature: a hash table with linear probing, at most half full. A batch looks up
// each of its rows' features, some ten thousand, which by binary search cost more than the model.
class Numbers {
 public:
  explicit Numbers(size_t most)
      : bits_(static_cast<unsigned>(std::bit_width(2 * most))), entries_(size_t{1} << bits_) {}

  // REQUIRES: a new one, and no more than `most` of them.
  void Add(uint32_t index, uint32_t number) {
    size_t at = HomeOf(index);
    while (entries_[at].number != kNone) at = (at + 1) & (entries_.size() - 1);
    entries_[at] = {index, number};
  }
  // REQUIRES: it was added.
  uint32_t Of(uint32_t index) const {
    for (size_t at = HomeOf(index);; at = (at + 1) & (entries_.size() - 1)) {
      MILLRACE_CHECK(entries_[at].number != kNone);
      if (entries_[at].index == index) return entries_[at].number;
    }
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Entry {
    uint32_t index = 0;
    uint32_t number = kNone;
  };
  // The upper bits of the product depend on all of the index (Knuth's multiplicative hash).
  size_t HomeOf(uint32_t index) const { return (index * 0x9E3779B97F4A7C15u) >> (64 - bits_); }

  unsigned bits_;  // >= 1
  std::vector<Entry> entries_;
};

std::vector<uint32_t> PlacesOf(RowsView rows, const Numbers& numbers) {
  std::vector<uint32_t> places;
  places.reserve(CountOf(rows));
  for (const Row* row : rows) {
    for (const uint32_t index : row->index) places.push_back(numbers.Of(index));
  }
  return places;
}

}  // namespace

FeatureNumbers NumberFeatures(RowsView rows, std::span<const EmbeddingId> ids, size_t first) {
  FeatureNumbers features{.from = Named(rows, ids), .places = {}};
  MILLRACE_CHECK(first + features.from.size() < UINT32_MAX);
  Numbers numbers(features.from.size() + 1);
  auto next = static_cast<uint32_t>(first);
  for (const size_t at : features.from) numbers.Add(static_cast<uint32_t>(ids[at]), next++);
  features.places = PlacesOf(rows, numbers);
  return features;
}

FeatureNumbers NumberFeatures(RowsView rows, size_t first) {
  const std::vector<uint32_t> named = FeaturesOf(rows);
  MILLRACE_CHECK(first + named.size() < UINT32_MAX);
  Numbers numbers(named.size() + 1);
  auto next = static_cast<uint32_t>(first);
  for (const uint32_t feature : named) numbers.Add(feature, next++);
  return {.from = {named.begin(), named.end()}, .places = PlacesOf(rows, numbers)};
}

}  // namespace millrace
