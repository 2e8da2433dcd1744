// Where an id stands among those of a batch. Internal to models/.
#pragma once

#include <cstddef>
#include <span>

#include "base/check.h"
#include "base/types.h"

namespace millrace {

// Which half is next is a matter of chance, which no processor foresees, so the halves are chosen
// without a branch. REQUIRES: `ids` ascend, are distinct, and have `id`.
inline size_t PlaceOf(std::span<const EmbeddingId> ids, EmbeddingId id) {
  const EmbeddingId* first = ids.data();
  for (size_t left = ids.size(); left > 1;) {
    const size_t half = left / 2;
    first += half * static_cast<size_t>(first[half - 1] < id);
    left -= half;
  }
  MILLRACE_CHECK(!ids.empty() && *first == id);
  return static_cast<size_t>(first - ids.data());
}

}  // namespace millrace
