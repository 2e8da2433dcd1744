#include "durability/checkpoints/parameters_tail.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>

#include "job/kafka_options.h"
#include "kafka/broker_retry.h"
#include "kafka/timeouts.h"
#include "topics/topics.h"

namespace millrace {
namespace {

constexpr size_t kParametersAtOnce = 256;

}  // namespace

StatusOr<std::unique_ptr<ParametersTail>> ParametersTail::Create(const JobConfig& config,
                                                                 ShardId shard, Offset from,
                                                                 Wakeup* wakeup,
                                                                 const std::atomic<bool>& stop) {
  std::unique_ptr<ParametersTail> tail(new ParametersTail());
  ConsumerOptions options;
  options.client_id = "parameters-tail-" + std::to_string(shard);
  options.read_committed = true;
  const std::string topic = TopicName(config.name(), Topic::kParameters);
  MILLRACE_ASSIGN_OR_RETURN(
      tail->consumer_, PartitionConsumer::Create(ToKafkaOptions(config), options, topic, wakeup));
  const auto partition = static_cast<int32_t>(shard);
  MILLRACE_ASSIGN_OR_RETURN(const PartitionConsumer::Range range,
                            BrokerRetry(stop, config.broker_timeout_s()).Run([&] {
                              return tail->consumer_->QueryRange(partition, kBrokerCall);
                            }));
  if (const Status fits = CheckCopyFits(from, range.end); !fits.ok()) {
    return absl::OutOfRangeError(topic + ", partition " + std::to_string(shard) + " " +
                                 std::string(fits.message()));
  }
  const Offset begin = std::max(from, range.begin);
  tail->behind_ = static_cast<size_t>(range.end - begin);
  MILLRACE_RETURN_IF_ERROR(tail->consumer_->Assign(partition, begin));
  return tail;
}

StatusOr<size_t> ParametersTail::Poll(const Take& take) {
  ConsumerHandler handler;
  handler.on_record = [&](const ConsumedRecord& record) -> Status {
    if (!CheckpointAssembler::Knows(record.key)) {
      spdlog::warn(
          "parameters, partition {}, offset {}: record skipped: its key is unknown, so it is not "
          "part of a checkpoint. Another program writes to this topic; find and stop it",
          record.partition, record.offset);
      return absl::OkStatus();
    }
    MILLRACE_ASSIGN_OR_RETURN(std::optional<CheckpointAssembler::Part> part,
                              assembler_.Add(record.offset, record.key, record.value));
    return part ? take(*std::move(part)) : absl::OkStatus();
  };
  handler.on_end = [&](int32_t, Offset) { caught_up_ = true; };
  handler.on_out_of_range = [](int32_t partition) {
    return absl::OutOfRangeError("parameters, partition " + std::to_string(partition) +
                                 ": records were deleted while they were read, or the topic was "
                                 "deleted and recreated");
  };
  return consumer_->Poll(kParametersAtOnce, handler);
}

}  // namespace millrace
