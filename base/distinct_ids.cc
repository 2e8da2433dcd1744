#include "base/distinct_ids.h"

#include <algorithm>
#include <cstddef>

#include "base/radix_sort.h"

namespace millrace {

void SortDistinct(std::vector<EmbeddingId>& ids) {
  constexpr size_t kFew = 256;  // are faster by comparison
  if (ids.size() < kFew) {
    std::ranges::sort(ids);
  } else {
    RadixSort(ids, [](EmbeddingId id) { return id; });
  }
  ids.erase(std::ranges::unique(ids).begin(), ids.end());
}

}  // namespace millrace
