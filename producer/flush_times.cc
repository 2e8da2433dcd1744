#include "producer/flush_times.h"

#include "base/check.h"

namespace millrace {

void FlushTimes::Add(WorkerId worker, RowNumber end, Pacer::Time now) {
  Partition& partition = partitions_[worker];
  MILLRACE_CHECK(end >= partition.end);
  if (end == partition.end) return;
  partition.end = end;
  if (!partition.since) partition.since = now;
}

bool FlushTimes::IsDue(WorkerId worker, Pacer::Time now, Pacer::Time::duration wait) const {
  const Partition& partition = partitions_[worker];
  return partition.since && now - *partition.since >= wait;
}

RowNumber FlushTimes::Take(WorkerId worker) {
  partitions_[worker].since.reset();
  return partitions_[worker].end;
}

}  // namespace millrace
