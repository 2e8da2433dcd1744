#include "kafka/read_partition.h"

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "kafka/timeouts.h"
#include "kafka/wakeup.h"

namespace millrace {
namespace {

constexpr std::chrono::seconds kEndOfBeforeTimeout(10);

// A broker that does not know yet that another leads the partition, or has just become its leader.
Status EndOfBefore(const std::string& topic, int32_t partition, Offset met, Offset end) {
  return absl::UnavailableError(topic + ", partition " + std::to_string(partition) +
                                ": it had records up to offset " + std::to_string(end) +
                                ", but its broker has none from " + std::to_string(met) +
                                " on: it does not know them yet, or they are lost (an unclean "
                                "leader election, or a broker's disk)");
}

}  // namespace

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
  std::optional<Offset> met;  // an end
  std::chrono::steady_clock::time_point met_at;
  ConsumerHandler handler;
  handler.on_record = on_record;
  handler.on_end = [&](int32_t, Offset end) {
    if (!met || *met < end) met_at = std::chrono::steady_clock::now();
    met = end;
  };
  handler.on_out_of_range = [&](int32_t) {
    return absl::UnavailableError(topic + ": records were deleted while they were read");
  };
  MILLRACE_RETURN_IF_ERROR(consumer->Assign(partition, range.begin));
  while (!met || *met < range.end) {
    if (met && std::chrono::steady_clock::now() - met_at > kEndOfBeforeTimeout) {
      return EndOfBefore(topic, partition, *met, range.end);
    }
    if (stop) return absl::CancelledError("stopped");
    MILLRACE_ASSIGN_OR_RETURN(const size_t events, consumer->Poll(kReadAtOnce, handler));
    if (events == 0) wakeup.WaitFor(kPoll);
  }
  return absl::OkStatus();
}

}  // namespace millrace
