// Finds the expired rows of a table, so that they can be removed from its store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "stores/ordered_byte_map.h"

namespace millrace {

// An expired row counts as never created (EmbeddingTable), whether the store has it or not: so it
// may be removed at any time, and no result depends on when. The store is scanned from its first
// row to its last, a part with each checkpoint, so that no checkpoint takes long. Used by one
// thread at a time.
class RowSweep {
 public:
  // `expire_after_ms` is positive.
  RowSweep(uint32_t table, int64_t expire_after_ms);

  // Looks at the next rows, at most so many, and returns the keys of those that have expired at
  // `now_ms`, ascending. After the last row it starts again, but not before an eighth of the expiry
  // time has passed since the last start, since before that few rows have expired. Errors: the
  // store's.
  StatusOr<std::vector<std::string>> Next(const OrderedByteMap& store, int64_t now_ms, size_t most);

 private:
  const int64_t expire_after_ms_;
  const std::string first_;
  const std::string end_;
  std::string next_;  // empty: no scan is under way
  int64_t began_ms_ = INT64_MIN;
};

}  // namespace millrace
