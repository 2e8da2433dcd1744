// Leases of rows of input-data: what is said of them, checked.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "messages/leases.pb.h"
#include "topics/gradient_codec.h"

namespace millrace {

inline constexpr uint64_t kMostLeaseRows = 1'048'576;
inline constexpr uint32_t kMostOpenLeases = 18;    // of a worker; OpenLeases says how many
inline constexpr size_t kMostFreeRanges = 25'000;  // one record of `plan` has them all
// Of rows, of all partitions together.
inline constexpr uint64_t kMostLeaseNumber = kMostClock;
inline constexpr int64_t kMostLeaseOffset = int64_t{1} << 62;

inline uint64_t RowsOf(const InputRange& range) { return range.end() - range.begin(); }
// Behind the lease's last row, as the worker's.
inline uint64_t EndRowOf(const Lease& lease) { return lease.first_row() + RowsOf(lease.range()); }

// InvalidArgument, which says what is wrong.
Status CheckLeaseCommand(const LeaseCommand& command);
Status CheckOpenLeases(uint32_t most);  // of a worker
Status CheckInputRange(const InputRange& range);
Status CheckInputState(const InputState& input);
// By itself: whether other workers have the same rows is not checked.
Status CheckWorkerLeases(const WorkerLeases& leases);

}  // namespace millrace
