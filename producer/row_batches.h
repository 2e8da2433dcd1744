// The rows of each partition that wait to be sent together, as one record. Pure: the caller passes
// the time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/types.h"
#include "models/row.h"
#include "producer/pacing.h"
#include "topics/partitioning.h"
#include "topics/row_codec.h"

namespace millrace {

// A record goes when it is full, or when the partition's last one went `linger` ago. So a row that
// comes alone goes at once, no row waits for longer, and a partition has at most one record in that
// time, however many rows it gets. Not thread-safe.
class RowBatches {
 public:
  RowBatches(uint32_t workers, Pacer::Time::duration linger)
      : linger_(linger), partitions_(workers) {}

  // Whether the row fits into its partition's record; else that is to be taken first.
  bool Takes(RowPlace place, const Row& row) const {
    return partitions_[place.worker].batch.Takes(row);
  }
  // REQUIRES Takes(), and the number after the partition's last row.
  void Add(RowPlace place, const Row& row);

  // Whether the partition has rows, and they should go now.
  bool IsDue(WorkerId worker, Pacer::Time now) const;
  // The first moment at which any is due; empty: none has rows.
  std::optional<Pacer::Time> NextDue() const;
  bool HasRows(WorkerId worker) const { return partitions_[worker].batch.rows() > 0; }
  uint32_t partitions() const { return static_cast<uint32_t>(partitions_.size()); }

  struct Record {
    InputKey key;
    std::string value;
  };
  // The partition's rows, as a record that goes now. REQUIRES HasRows().
  Record Take(WorkerId worker, Pacer::Time now);

 private:
  struct Partition {
    RowBatchEncoder batch;
    RowNumber end = 0;                // the number after its last row
    std::optional<Pacer::Time> last;  // when a record went
  };

  Pacer::Time::duration linger_;
  std::vector<Partition> partitions_;
};

}  // namespace millrace
