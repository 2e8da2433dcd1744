// When the rows of each partition of input-data are to be flushed. Pure: the caller passes the
// time.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/types.h"
#include "producer/pacing.h"

namespace millrace {

// A flush says that the rows before it are not to wait for others of their batch (Flush,
// messages/records.proto). It is due when the first row behind the last one has waited long enough;
// a partition without such rows needs none. Not thread-safe.
class FlushTimes {
 public:
  explicit FlushTimes(uint32_t partitions) : partitions_(partitions) {}

  // The partition has the rows before `end`, and what of them is new has come now.
  void Add(WorkerId worker, RowNumber end, Pacer::Time now);
  // Whether a row has waited for `wait`.
  bool IsDue(WorkerId worker, Pacer::Time now, Pacer::Time::duration wait) const;
  // The row before which a flush goes now.
  RowNumber Take(WorkerId worker);

 private:
  struct Partition {
    RowNumber end = 0;
    // When its first row behind the last flush came; none: there is no such row.
    std::optional<Pacer::Time> since;
  };
  std::vector<Partition> partitions_;
};

}  // namespace millrace
