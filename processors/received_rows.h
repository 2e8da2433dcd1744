// The embedding rows that a shard's last answers have brought to a worker.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "base/types.h"
#include "messages/records.pb.h"

namespace millrace {

// An answer brings the rows of one batch; as many batches as may be in flight are still to be made
// of what came. Of a row that came more than once the last values count. Not thread-safe.
class ReceivedRows {
 public:
  // Keeps the rows of so many answers. REQUIRES answers >= 1.
  explicit ReceivedRows(size_t answers);

  // The rows of the next answer, which was made when no worker was below `min_clock`. REQUIRES: ids
  // are ascending, distinct, and each has `width` values.
  void Add(EmbeddingBlock rows, Clock min_clock);
  void Clear() { answers_.clear(); }

  // Whether all of the ids, ascending, came with answers that were made at this min_clock or later.
  bool Have(std::span<const EmbeddingId> ids, Clock min_clock) const;
  // Appends the values of each of the ids, ascending: `width` of them, until the next Add. Null:
  // the row has not come since min_clock.
  void FindAll(std::span<const EmbeddingId> ids, size_t width, Clock min_clock,
               std::vector<const float*>& found) const;

 private:
  struct Answer {
    EmbeddingBlock rows;
    Clock min_clock;
  };

  size_t most_;
  std::deque<Answer> answers_;  // newest first
};

}  // namespace millrace
