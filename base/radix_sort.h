// Sorts many items by ids, in linear time.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "base/types.h"

namespace millrace {

// Ascending by id_of(item); equal ids stay in their order. By one digit after the other, from the
// last: ids of a small range have few that differ.
template <typename Item, typename IdOf>
void RadixSort(std::vector<Item>& items, const IdOf& id_of) {
  constexpr int kDigitBits = 11;  // whose counts fit the first-level cache
  if (items.empty()) return;
  EmbeddingId differing = 0;
  for (const Item& item : items) differing |= id_of(item) ^ id_of(items.front());
  std::vector<Item> sorted(items.size());
  for (int shift = 0; shift < 64; shift += kDigitBits) {
    const auto digit = [shift](EmbeddingId id) {
      return static_cast<size_t>(id >> shift) & ((size_t{1} << kDigitBits) - 1);
    };
    if (digit(differing) == 0) continue;
    std::array<size_t, size_t{1} << kDigitBits> begins{};
    for (const Item& item : items) ++begins[digit(id_of(item))];
    size_t begin = 0;
    for (size_t& count : begins) {
      const size_t next = begin + count;
      count = begin;
      begin = next;
    }
    for (const Item& item : items) sorted[begins[digit(id_of(item))]++] = item;
    items.swap(sorted);
  }
}

}  // namespace millrace
