#include "durability/checkpoints/parameters_tail.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include "job/kafka_options.h"
#include "kafka/overdue_end.h"
#include "kafka/timeouts.h"
#include "tasks/checkpoint.h"
#include "topics/topics.h"

namespace millrace {
namespace {

constexpr size_t kParametersAtOnce = 256;

}  // namespace

StatusOr<std::unique_ptr<ParametersTail>> ParametersTail::Create(const JobConfig& config,
                                                                 ShardId shard,
                                                                 const OrderedByteMap& copy,
                                                                 Wakeup* wakeup,
                                                                 const std::atomic<bool>& stop) {
  MILLRACE_ASSIGN_OR_RETURN(const Offset from, ReadParametersOffset(copy));
  const std::string topic = TopicName(config, Topic::kParameters);
  const auto partition = static_cast<int32_t>(shard);
  std::unique_ptr<ParametersTail> tail(new ParametersTail(topic, partition));
  ConsumerOptions options;
  options.client_id = "parameters-tail-" + std::to_string(shard);
  options.read_committed = true;
  MILLRACE_ASSIGN_OR_RETURN(
      tail->consumer_, PartitionConsumer::Create(ToKafkaOptions(config), options, topic, wakeup));
  const BrokerRetry retry(stop, config.broker_timeout_s());
  MILLRACE_ASSIGN_OR_RETURN(const OffsetRange range, tail->QueryRange(from, retry));
  Status fits = CheckCopyFits(from, range.end);
  if (fits.ok() && from > 0) {
    fits = tail->CheckIncarnationOf(copy, range, *wakeup, stop);
  }
  if (absl::IsOutOfRange(fits)) {
    return absl::OutOfRangeError(topic + ", partition " + std::to_string(shard) + " " +
                                 std::string(fits.message()));
  }
  MILLRACE_RETURN_IF_ERROR(fits);
  const Offset begin = std::max(from, range.begin);
  tail->behind_ = static_cast<size_t>(range.end - begin);
  tail->end_.Know(range.end);
  MILLRACE_RETURN_IF_ERROR(tail->consumer_->Assign(partition, begin));
  return tail;
}

StatusOr<OffsetRange> ParametersTail::QueryRange(Offset known, const BrokerRetry& retry) {
  for (KnownEnd end(known);;) {
    const auto asked = std::chrono::steady_clock::now();
    MILLRACE_ASSIGN_OR_RETURN(const OffsetRange range, retry.Run([&] {
      return consumer_->QueryRange(partition_, kBrokerCall);
    }));
    const auto now = std::chrono::steady_clock::now();
    end.Meet(range.end, now);
    if (now - asked > kBrokerCall / 10) end.Restart(now);  // nobody has said it meanwhile
    if (end.is_reached() || end.is_overdue(now)) return range;
    if (retry.stopped()) return absl::CancelledError("stopped");
    std::this_thread::sleep_for(kPoll);
  }
}

Status ParametersTail::CheckIncarnationOf(const OrderedByteMap& copy, const OffsetRange& range,
                                          Wakeup& wakeup, const std::atomic<bool>& stop) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string copys, ReadIncarnation(copy));
  std::optional<Status> checked;
  KnownEnd end(range.end);
  ConsumerHandler handler;
  handler.on_record = [&](const ConsumedRecord& record) {
    const bool is_first = !checked && CheckpointAssembler::Knows(record.key);
    if (is_first) checked = CheckIncarnation(copys, record.key, record.value);
    return absl::OkStatus();
  };
  TellEnd(end, handler);
  handler.on_out_of_range = [](int32_t) {
    return absl::OutOfRangeError("was deleted and recreated while its first record was read");
  };
  MILLRACE_RETURN_IF_ERROR(consumer_->Assign(partition_, range.begin));
  while (!checked) {
    MILLRACE_RETURN_IF_ERROR(CheckOverdueEnd(end, *consumer_, topic_, partition_));
    if (stop) return absl::CancelledError("stopped");
    MILLRACE_ASSIGN_OR_RETURN(const size_t events, consumer_->Poll(1, handler));
    if (!checked && end.is_reached()) checked = CheckIncarnation(copys, "", "");
    if (events == 0 && !checked) wakeup.WaitFor(kPoll);
  }
  return *checked;
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
  TellEnd(end_, handler);
  handler.on_out_of_range = [](int32_t partition) {
    return absl::OutOfRangeError("parameters, partition " + std::to_string(partition) +
                                 ": records were deleted while they were read, or the topic was "
                                 "deleted and recreated");
  };
  MILLRACE_ASSIGN_OR_RETURN(const size_t events, consumer_->Poll(kParametersAtOnce, handler));
  MILLRACE_RETURN_IF_ERROR(CheckOverdueEnd(end_, *consumer_, topic_, partition_));
  return events;
}

}  // namespace millrace
