#include "kafka/read_partition.h"

#include <chrono>
#include <cstddef>
#include <string>

#include "kafka/known_end.h"
#include "kafka/overdue_end.h"
#include "kafka/timeouts.h"
#include "kafka/wakeup.h"

namespace millrace {

Status ReadPartition(const KafkaOptions& kafka, const std::string& client_id,
                     const std::string& topic, int32_t partition, const std::atomic<bool>& stop,
                     const std::function<Status(const ConsumedRecord&)>& on_record) {
  constexpr size_t kReadAtOnce = 1000;
  ConsumerOptions options;
  options.client_id = client_id;
  options.read_committed = true;
  Wakeup wakeup;
  MILLRACE_ASSIGN_OR_RETURN(const auto consumer,
                            PartitionConsumer::Create(kafka, options, topic, &wakeup));
  MILLRACE_ASSIGN_OR_RETURN(const OffsetRange range, consumer->QueryRange(partition, kBrokerCall));
  KnownEnd end(range.end);
  ConsumerHandler handler;
  handler.on_record = on_record;
  TellEnd(end, handler);
  handler.on_out_of_range = [&](int32_t) {
    return absl::UnavailableError(topic + ": records were deleted while they were read");
  };
  MILLRACE_RETURN_IF_ERROR(consumer->Assign(partition, range.begin));
  while (!end.is_reached()) {
    MILLRACE_RETURN_IF_ERROR(CheckOverdueEnd(end, *consumer, topic, partition));
    if (stop) return absl::CancelledError("stopped");
    MILLRACE_ASSIGN_OR_RETURN(const size_t events, consumer->Poll(kReadAtOnce, handler));
    if (events == 0) wakeup.WaitFor(kPoll);
  }
  return absl::OkStatus();
}

}  // namespace millrace
