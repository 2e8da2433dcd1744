#include "producer/row_batches.h"

#include <algorithm>

#include "base/check.h"

namespace millrace {

void RowBatches::Add(RowPlace place, const Row& row) {
  Partition& partition = partitions_[place.worker];
  MILLRACE_CHECK(partition.batch.rows() == 0 || place.row == partition.end);
  partition.batch.Add(row);
  partition.end = place.row + 1;
}

bool RowBatches::IsDue(WorkerId worker, Pacer::Time now) const {
  const Partition& partition = partitions_[worker];
  if (partition.batch.rows() == 0) return false;
  return partition.batch.full() || !partition.last || *partition.last + linger_ <= now;
}

std::optional<Pacer::Time> RowBatches::NextDue() const {
  std::optional<Pacer::Time> next;
  for (const Partition& partition : partitions_) {
    if (partition.batch.rows() == 0) continue;
    const Pacer::Time due = partition.last ? *partition.last + linger_ : Pacer::Time::min();
    next = std::min(next.value_or(due), due);
  }
  return next;
}

RowBatches::Record RowBatches::Take(WorkerId worker, Pacer::Time now) {
  Partition& partition = partitions_[worker];
  const uint32_t rows = partition.batch.rows();
  partition.last = now;
  return {{RowNumber(partition.end - rows), rows}, EncodeRows(partition.batch)};
}

}  // namespace millrace
