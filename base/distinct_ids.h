// Sorts many ids at once.
#pragma once

#include <vector>

#include "base/types.h"

namespace millrace {

// Sorts the ids and leaves each once. In linear time: a batch names each frequent id many times.
void SortDistinct(std::vector<EmbeddingId>& ids);

}  // namespace millrace
