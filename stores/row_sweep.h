// Which rows of a table have expired, and take room in its store for nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "stores/ordered_byte_map.h"

namespace millrace {

// A row that has expired is as if it had never been (EmbeddingTable), whether the store has it or
// not: so it may be removed at any time, and nothing that is computed depends on when. The store is
// gone through from its first row to its last, a part with each checkpoint, so that none of them
// takes long. Used by one thread at a time.
class RowSweep {
 public:
  // `expire_after_ms` is positive.
  RowSweep(uint32_t table, int64_t expire_after_ms);

  // Looks at the next rows, at most so many, and returns the keys of those that have expired at
  // `now_ms`, ascending. Behind the last row it begins again, but not before an eighth of the time
  // after which rows expire has passed since it began the last time: then few have. Errors: the
  // store's.
  StatusOr<std::vector<std::string>> Next(const OrderedByteMap& store, int64_t now_ms, size_t most);

 private:
  const int64_t expire_after_ms_;
  const std::string first_;
  const std::string end_;
  std::string next_;  // empty: at rest
  int64_t began_ms_ = INT64_MIN;
};

}  // namespace millrace
