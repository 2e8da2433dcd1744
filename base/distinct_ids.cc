#include "base/distinct_ids.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace millrace {
namespace {

constexpr int kDigitBits = 11;  // whose counts fit the first-level cache

size_t DigitOf(EmbeddingId id, int shift) {
  return static_cast<size_t>(id >> shift) & ((size_t{1} << kDigitBits) - 1);
}

// By one digit after the other, from the last. Ids of a small range have few that differ.
void RadixSort(std::vector<EmbeddingId>& ids) {
  EmbeddingId differing = 0;
  for (const EmbeddingId id : ids) differing |= id ^ ids.front();
  std::vector<EmbeddingId> sorted(ids.size());
  for (int shift = 0; shift < 64; shift += kDigitBits) {
    if (DigitOf(differing, shift) == 0) continue;
    std::array<size_t, size_t{1} << kDigitBits> begins{};
    for (const EmbeddingId id : ids) ++begins[DigitOf(id, shift)];
    size_t begin = 0;
    for (size_t& count : begins) {
      const size_t next = begin + count;
      count = begin;
      begin = next;
    }
    for (const EmbeddingId id : ids) sorted[begins[DigitOf(id, shift)]++] = id;
    ids.swap(sorted);
  }
}

}  // namespace

void SortDistinct(std::vector<EmbeddingId>& ids) {
  constexpr size_t kFew = 256;  // are faster by comparison
  if (ids.size() < kFew) {
    std::ranges::sort(ids);
  } else {
    RadixSort(ids);
  }
  ids.erase(std::ranges::unique(ids).begin(), ids.end());
}

}  // namespace millrace
