#include "kafka/overdue_end.h"

#include <chrono>

#include "kafka/timeouts.h"

namespace millrace {

Status CheckOverdueEnd(KnownEnd& end, PartitionConsumer& consumer, const std::string& topic,
                       int32_t partition) {
  if (!end.is_overdue(std::chrono::steady_clock::now())) return absl::OkStatus();
  const StatusOr<OffsetRange> range = consumer.QueryRange(partition, kBrokerCall);
  if (range.ok() && range->end < end.offset()) return end.Overdue(topic, partition);
  end.Restart(std::chrono::steady_clock::now());
  return absl::OkStatus();
}

}  // namespace millrace
