#include "models/feature_numbers.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace millrace {
namespace {

size_t CountOf(RowsView rows, NamedRows named) {
  size_t count = 0;
  for (const Row* row : rows) {
    count += (named.features ? row->index.size() : 0) + (named.ids ? row->ids.size() : 0);
  }
  return count;
}

template <typename Visit>
void VisitKeys(RowsView rows, NamedRows named, const Visit& visit) {
  for (const Row* row : rows) {
    if (named.features) {
      for (const uint32_t feature : row->index) visit(uint64_t{feature});
    }
    if (named.ids) {
      for (const EmbeddingId id : row->ids) visit(id);
    }
  }
}

// Ascending, distinct.
std::vector<uint64_t> KeysOf(RowsView rows, NamedRows named) {
  std::vector<uint64_t> keys;
  keys.reserve(CountOf(rows, named));
  VisitKeys(rows, named, [&](uint64_t key) { keys.push_back(key); });
  std::ranges::sort(keys);
  keys.erase(std::ranges::unique(keys).begin(), keys.end());
  return keys;
}

// Those of `ids` that the rows name: all of them when the ids are the batch's own.
std::vector<size_t> PlacesAmong(std::span<const EmbeddingId> ids, RowsView rows, NamedRows named) {
  std::vector<size_t> places;
  if (ids.size() <= CountOf(rows, named)) {
    places.resize(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) places[i] = i;
    return places;
  }
  for (const uint64_t key : KeysOf(rows, named)) {
    const auto found = std::ranges::lower_bound(ids, key);
    MILLRACE_CHECK(found != ids.end() && *found == key);
    places.push_back(static_cast<size_t>(found - ids.begin()));
  }
  return places;
}

// The number of each key: a hash table with linear probing, at most half full. A batch looks up
// each of its rows' features, some ten thousand, which by binary search cost more than the model.
class Numbers {
 public:
  explicit Numbers(size_t most)
      : bits_(static_cast<unsigned>(std::bit_width(2 * most))), entries_(size_t{1} << bits_) {}

  // REQUIRES: a new one, and no more than `most` of them.
  void Add(uint64_t key, uint32_t number) {
    size_t at = HomeOf(key);
    while (entries_[at].number != kNone) at = (at + 1) & (entries_.size() - 1);
    entries_[at] = {key, number};
  }
  // REQUIRES: it was added.
  uint32_t Of(uint64_t key) const {
    for (size_t at = HomeOf(key);; at = (at + 1) & (entries_.size() - 1)) {
      MILLRACE_CHECK(entries_[at].number != kNone);
      if (entries_[at].key == key) return entries_[at].number;
    }
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Entry {
    uint64_t key = 0;
    uint32_t number = kNone;
  };
  // The upper bits of the product depend on all of the key (Knuth's multiplicative hash).
  size_t HomeOf(uint64_t key) const { return (key * 0x9E3779B97F4A7C15u) >> (64 - bits_); }

  unsigned bits_;  // >= 1
  std::vector<Entry> entries_;
};

std::vector<uint32_t> NumbersOf(RowsView rows, NamedRows named, const Numbers& numbers) {
  std::vector<uint32_t> places;
  places.reserve(CountOf(rows, named));
  VisitKeys(rows, named, [&](uint64_t key) { places.push_back(numbers.Of(key)); });
  return places;
}

}  // namespace

FeatureNumbers NumberRows(RowsView rows, NamedRows named, std::span<const EmbeddingId> ids,
                          size_t first) {
  FeatureNumbers features{.from = PlacesAmong(ids, rows, named), .places = {}};
  MILLRACE_CHECK(first + features.from.size() < UINT32_MAX);
  Numbers numbers(features.from.size() + 1);
  auto next = static_cast<uint32_t>(first);
  for (const size_t at : features.from) numbers.Add(ids[at], next++);
  features.places = NumbersOf(rows, named, numbers);
  return features;
}

FeatureNumbers NumberFeatures(RowsView rows, size_t first) {
  constexpr NamedRows kFeatures = {.features = true};
  const std::vector<uint64_t> keys = KeysOf(rows, kFeatures);
  MILLRACE_CHECK(first + keys.size() < UINT32_MAX);
  Numbers numbers(keys.size() + 1);
  auto next = static_cast<uint32_t>(first);
  for (const uint64_t key : keys) numbers.Add(key, next++);
  return {.from = {keys.begin(), keys.end()}, .places = NumbersOf(rows, kFeatures, numbers)};
}

}  // namespace millrace
