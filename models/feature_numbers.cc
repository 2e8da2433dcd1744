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

  // Its number, which is `number` if it is a new one. REQUIRES: no more than `most` of them.
  uint32_t Add(uint64_t key, uint32_t number) {
    Entry& entry = entries_[PlaceOf(key)];
    if (entry.number == kNone) entry = {key, number};
    return entry.number;
  }
  // REQUIRES: it was added.
  uint32_t Of(uint64_t key) const {
    const Entry& entry = entries_[PlaceOf(key)];
    MILLRACE_CHECK(entry.number != kNone);
    return entry.number;
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Entry {
    uint64_t key = 0;
    uint32_t number = kNone;
  };
  // Where it is, or is to be.
  size_t PlaceOf(uint64_t key) const {
    size_t at = HomeOf(key);
    while (entries_[at].number != kNone && entries_[at].key != key) {
      at = (at + 1) & (entries_.size() - 1);
    }
    return at;
  }
  // The upper bits of the product depend on all of the key (Knuth's multiplicative hash).
  size_t HomeOf(uint64_t key) const { return (key * 0x9E3779B97F4A7C15u) >> (64 - bits_); }

  unsigned bits_;  // >= 1
  std::vector<Entry> entries_;
};

}  // namespace

FeatureNumbers NumberRows(RowsView rows, NamedRows named, std::span<const EmbeddingId> ids,
                          size_t first) {
  FeatureNumbers features{.from = PlacesAmong(ids, rows, named), .places = {}};
  MILLRACE_CHECK(first + features.from.size() < UINT32_MAX);
  Numbers numbers(features.from.size() + 1);
  auto next = static_cast<uint32_t>(first);
  for (const size_t at : features.from) numbers.Add(ids[at], next++);
  features.places.reserve(CountOf(rows, named));
  VisitKeys(rows, named, [&](uint64_t key) { features.places.push_back(numbers.Of(key)); });
  return features;
}

FeatureNumbers NumberFeatures(RowsView rows, size_t first) {
  constexpr NamedRows kFeatures = {.features = true};
  const size_t count = CountOf(rows, kFeatures);
  MILLRACE_CHECK(first + count < UINT32_MAX);
  Numbers numbers(count + 1);
  FeatureNumbers features;
  features.places.reserve(count);
  VisitKeys(rows, kFeatures, [&](uint64_t key) {
    const auto next = static_cast<uint32_t>(first + features.from.size());
    const uint32_t number = numbers.Add(key, next);
    if (number == next) features.from.push_back(key);
    features.places.push_back(number);
  });
  return features;
}

}  // namespace millrace
