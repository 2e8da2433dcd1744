#include "runtime/followed_shard.h"

#include <string>

#include "runtime/job_options.h"
#include "runtime/patience.h"
#include "runtime/waits.h"
#include "topics/topics.h"

namespace millrace {
namespace {

constexpr size_t kRecordsAtOnce = 64;

}  // namespace

StatusOr<std::unique_ptr<FollowedShard>> FollowedShard::Create(const JobConfig& config,
                                                               const ServerOptions& options,
                                                               Wakeup* wakeup,
                                                               const std::atomic<bool>& stop) {
  std::unique_ptr<FollowedShard> shard(new FollowedShard(options));
  ConsumerOptions consumer;
  consumer.client_id = "follower-" + std::to_string(options.shard);
  consumer.read_committed = true;
  MILLRACE_ASSIGN_OR_RETURN(
      shard->consumer_,
      PartitionConsumer::Create(KafkaOptionsOf(config), consumer,
                                TopicName(config.name(), Topic::kParameters), wakeup));
  const auto partition = static_cast<int32_t>(options.shard);
  MILLRACE_ASSIGN_OR_RETURN(const PartitionConsumer::Range range,
                            Patience(stop, config.broker_timeout_s()).Try([&] {
                              return shard->consumer_->QueryRange(partition, kBrokerCall);
                            }));
  MILLRACE_RETURN_IF_ERROR(shard->consumer_->Assign(partition, range.begin));
  return shard;
}

StatusOr<size_t> FollowedShard::Poll() {
  Status status = absl::OkStatus();
  ConsumerHandler handler;
  handler.on_record = [&](const ConsumedRecord& record) {
    if (status.ok()) status = Take(record);
  };
  handler.on_end = [&](int32_t, Offset) { caught_up_ = true; };
  handler.on_out_of_range = [&](int32_t partition) {
    status = absl::DataLossError("parameters, partition " + std::to_string(partition) +
                                 ": records were deleted while they were read");
  };
  MILLRACE_ASSIGN_OR_RETURN(const size_t events, consumer_->Poll(kRecordsAtOnce, handler));
  MILLRACE_RETURN_IF_ERROR(status);
  return events;
}

Status FollowedShard::Take(const ConsumedRecord& record) {
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<CheckpointAssembler::Whole> whole,
                            assembler_.Add(record.offset, record.key, record.value));
  if (!whole) return absl::OkStatus();
  for (const Checkpoint::Entry& entry : whole->entries) {
    MILLRACE_RETURN_IF_ERROR(task_.AddParameter(entry.key, entry.value));
  }
  return task_.FinishParameters();
}

}  // namespace millrace
