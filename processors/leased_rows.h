// A worker's leases, as `plan` has them, and the rows of input-data that they name.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "base/status.h"
#include "base/types.h"
#include "messages/leases.pb.h"
#include "processors/input_data_processor.h"

namespace millrace {

// Reads one lease after the other, which are one stream for the batch source: the end of a lease
// ends a batch (OnePassOptions.ends_at_flushes), so batches follow from the leases and from what
// shard 0 has counted. Pure; not thread-safe.
class LeasedRows {
 public:
  // Where the next record is to be read from.
  struct Place {
    uint64_t lease = 0;  // its number
    uint32_t partition = 0;
    Offset offset = 0;
    bool operator==(const Place&) const = default;
  };

  // Begins with what is open in the worker's newest record of `plan`. REQUIRES CheckWorkerLeases.
  // `source` is new, and outlives it. `reasons_only`: as InputDataProcessor's.
  LeasedRows(const WorkerLeases& leases, const RowShape& shape, BatchSource& source,
             bool reasons_only = false);
  LeasedRows(const LeasedRows&) = delete;
  LeasedRows& operator=(const LeasedRows&) = delete;

  // Takes a later record of `plan`. False: leases have come and gone that this one has not seen, so
  // another instance of the worker has them behind it; a new one may begin with the record.
  // InvalidArgument: it contradicts the earlier ones. REQUIRES CheckWorkerLeases.
  StatusOr<bool> Follow(const WorkerLeases& leases);

  // None: nothing, before there is another lease.
  std::optional<Place> next() const;
  // A record of the partition of next(). Those before its offset are left out; none behind it may
  // be left out before. Errors are InputDataProcessor's. REQUIRES next().
  Status Process(const InputDataRecord& record);

  // Whether all rows have come, and no other lease will.
  bool ended() const { return input_.ended(); }
  uint64_t repeated_rows() const { return input_.repeated_rows(); }

 private:
  Status Take(const Lease& lease);
  // Begins with the next lease when the one before is done.
  void GoOn();

  InputDataProcessor input_;
  std::deque<Lease> leases_;  // that are not done; the first is being read
  Offset next_offset_ = 0;    // for the first
  uint64_t next_number_;      // of the next lease to be taken
  RowNumber next_row_;        // its first row
  bool is_last_ = false;
};

}  // namespace millrace
