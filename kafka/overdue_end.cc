#include "kafka/overdue_end.h"

#include <chrono>
#include <utility>

#include "base/check.h"
#include "kafka/timeouts.h"

namespace millrace {

void TellEnd(KnownEnd& end, ConsumerHandler& handler) {
  MILLRACE_CHECK(handler.on_record);
  handler.on_record = [&end, take = std::move(handler.on_record)](const ConsumedRecord& record) {
    end.Pass(record.offset);
    return take(record);
  };
  handler.on_end = [&end](int32_t, Offset met) { end.Meet(met, std::chrono::steady_clock::now()); };
}

Status CheckOverdueEnd(KnownEnd& end, PartitionConsumer& consumer, const std::string& topic,
                       int32_t partition) {
  if (!end.is_overdue(std::chrono::steady_clock::now())) return absl::OkStatus();
  const StatusOr<OffsetRange> range = consumer.QueryRange(partition, kBrokerCall);
  if (range.ok() && range->end < end.offset()) return end.Overdue(topic, partition);
  end.Restart(std::chrono::steady_clock::now());
  return absl::OkStatus();
}

}  // namespace millrace
