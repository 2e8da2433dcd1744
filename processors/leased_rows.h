// A worker's leases, as `plan` has them, and the rows of input-data that they name.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "messages/leases.pb.h"
#include "processors/input_data_processor.h"

namespace millrace {

// Reads one lease after the other, which are one stream for the batch source: the end of a lease
// ends a batch (OnePassOptions.ends_at_flushes), so batches follow from the leases and from what
// shard 0 has counted. What is behind the last row of a partition, records that cannot be used, is
// in no lease: one of the workers reads it behind its last one. Pure; not thread-safe.
class LeasedRows {
 public:
  // Where the next record is to be read from.
  struct Place {
    uint64_t lease = 0;  // its number; behind the last one each partition has a further one
    uint32_t partition = 0;
    Offset offset = 0;
    bool operator==(const Place&) const = default;
  };

  // Begins with what is open in the worker's newest record of `plan`. `tails`: the partitions that
  // it reads behind their last rows; of leases that are the last. REQUIRES CheckWorkerLeases, and
  // of each of the tails CheckInputState and that it has ended. `source` is new, and outlives it.
  // `reasons_only`: as InputDataProcessor's.
  LeasedRows(const WorkerLeases& leases, const RowShape& shape, BatchSource& source,
             bool reasons_only = false, const std::vector<InputState>& tails = {});
  LeasedRows(const LeasedRows&) = delete;
  LeasedRows& operator=(const LeasedRows&) = delete;

  // Takes a later record of `plan`. False: leases are done that this one has not read to their
  // ends, so another instance of the worker has them behind it; a new one may begin with the
  // record. InvalidArgument: it contradicts the earlier ones. REQUIRES as of the first.
  StatusOr<bool> Follow(const WorkerLeases& leases, const std::vector<InputState>& tails = {});

  // None: nothing, before there is another lease.
  std::optional<Place> next() const;
  // A record of the partition of next(). Those before its offset are left out; none behind it may
  // be left out before. Errors are InputDataProcessor's. REQUIRES next().
  Status Process(const InputDataRecord& record);

  // Whether all rows have come, and what is behind them, and no other lease will.
  bool ended() const { return input_.ended(); }
  uint64_t repeated_rows() const { return input_.repeated_rows(); }

 private:
  Status Take(const Lease& lease);
  Status ProcessTail(const InputDataRecord& record);
  // Begins with the next lease when the one before is done.
  void GoOn();

  InputDataProcessor input_;
  std::deque<Lease> leases_;  // that are not done; the first is being read
  Offset next_offset_ = 0;    // for the first, or for the first of the tails
  uint64_t next_number_;      // of the next lease to be taken
  RowNumber next_row_;        // its first row
  bool is_last_ = false;
  std::deque<InputState> tails_;  // that are not read to their ends
  bool in_tail_ = false;          // the first is being read
};

}  // namespace millrace
