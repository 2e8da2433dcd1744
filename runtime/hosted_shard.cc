#include "runtime/hosted_shard.h"

#include <string>
#include <utility>

#include "runtime/job_options.h"
#include "runtime/kafka/consumer.h"
#include "runtime/patience.h"
#include "runtime/shard_store.h"
#include "runtime/waits.h"
#include "topics/topics.h"

namespace millrace {
HostedShard::HostedShard(const JobConfig& config, const ServerOptions& options)
    : shard_(options.shard),
      interval_(config.server().checkpoint_interval_s()),
      records_(config.server().checkpoint_records()),
      task_(std::make_unique<ShardTask>(options)),
      last_checkpoint_(std::chrono::steady_clock::now()) {}

StatusOr<std::unique_ptr<HostedShard>> HostedShard::Open(const JobConfig& config,
                                                         const ServerOptions& options,
                                                         Wakeup* wakeup,
                                                         const std::atomic<bool>& stop) {
  std::unique_ptr<HostedShard> hosted(new HostedShard(config, options));
  // Fencing comes first: what is read afterwards, no older instance can change.
  MILLRACE_ASSIGN_OR_RETURN(hosted->log_, KafkaCheckpointLog::Create(config, options.shard, stop));
  MILLRACE_ASSIGN_OR_RETURN(hosted->store_, OpenShardStore(config, options.shard));
  MILLRACE_RETURN_IF_ERROR(hosted->task_->LoadStore(*hosted->store_));
  MILLRACE_RETURN_IF_ERROR(hosted->ReadParameters(config, stop));
  MILLRACE_RETURN_IF_ERROR(hosted->task_->FinishParameters());
  hosted->checkpointer_ = std::make_unique<Checkpointer>(*hosted->log_, *hosted->store_, wakeup);
  return hosted;
}

Status HostedShard::ReadParameters(const JobConfig& config, const std::atomic<bool>& stop) {
  const std::string topic = TopicName(config.name(), Topic::kParameters);
  const auto partition = static_cast<int32_t>(shard_);
  Wakeup wakeup;
  ConsumerOptions options;
  options.client_id = "parameters-" + std::to_string(shard_);
  options.read_committed = true;
  MILLRACE_ASSIGN_OR_RETURN(
      const std::unique_ptr<PartitionConsumer> consumer,
      PartitionConsumer::Create(KafkaOptionsOf(config), options, topic, &wakeup));
  MILLRACE_ASSIGN_OR_RETURN(const PartitionConsumer::Range range,
                            Patience(stop, config.broker_timeout_s()).Try([&] {
                              return consumer->QueryRange(partition, kBrokerCall);
                            }));
  const Offset position = task_->parameters_position();
  if (position > range.end) {
    return absl::DataLossError(topic + " ends at " + std::to_string(range.end) +
                               ", but the store of shard " + std::to_string(shard_) +
                               " has read it up to " + std::to_string(position) +
                               ": the topic was made anew. Remove " + config.server().data_dir() +
                               ", or start a new job (another name)");
  }
  MILLRACE_RETURN_IF_ERROR(consumer->Assign(partition, std::max(position, range.begin)));
  bool at_end = false;
  Status status = absl::OkStatus();
  ConsumerHandler handler;
  handler.on_record = [&](const ConsumedRecord& record) {
    if (status.ok()) status = task_->AddParameter(record.key, record.value);
  };
  handler.on_end = [&](int32_t, Offset) { at_end = true; };
  handler.on_out_of_range = [&](int32_t) {
    status = absl::DataLossError(topic + ": records were deleted while they were read");
  };
  while (!at_end && status.ok()) {
    if (stop) return absl::CancelledError("stopped");
    MILLRACE_ASSIGN_OR_RETURN(const size_t events, consumer->Poll(1000, handler));
    if (events == 0) wakeup.WaitFor(kPoll);
  }
  return status;
}

StatusOr<bool> HostedShard::Take(const Checkpointer::Result& result) {
  if (result.status.ok()) {
    task_->CheckpointDone(result.checkpoint);
    return true;
  }
  task_->CheckpointFailed(result.checkpoint);
  if (absl::IsAborted(result.status) || absl::IsCancelled(result.status)) return false;
  const bool fenced = absl::IsFailedPrecondition(result.status) &&
                      result.status.message().find("fenced") != absl::string_view::npos;
  if (!fenced) return result.status;
  return absl::FailedPreconditionError(
      "shard " + std::to_string(shard_) +
      " has been taken over by another process, and this one stops; each shard is for one process "
      "(--server-ids). Kafka says: " +
      std::string(result.status.message()));
}

StatusOr<bool> HostedShard::Checkpoint(std::chrono::steady_clock::time_point now) {
  if (std::optional<Checkpointer::Result> result = checkpointer_->Finished()) return Take(*result);
  const bool due =
      now - last_checkpoint_ >= interval_ || task_->records_since_checkpoint() >= records_;
  if (!due || checkpointer_->busy()) return false;
  last_checkpoint_ = now;
  if (std::optional<millrace::Checkpoint> checkpoint = task_->BeginCheckpoint()) {
    checkpointer_->Start(*std::move(checkpoint));
  }
  return false;
}

Status HostedShard::FinalCheckpoint() {
  if (const std::optional<Checkpointer::Result> result = checkpointer_->Wait()) {
    MILLRACE_RETURN_IF_ERROR(Take(*result).status());
    // Stopped while the broker is away: no other will do better. The log has what it has not.
    if (absl::IsCancelled(result->status)) return absl::OkStatus();
  }
  constexpr int kTries = 3;
  for (int i = 0; i < kTries; ++i) {
    std::optional<millrace::Checkpoint> checkpoint = task_->BeginCheckpoint();
    if (!checkpoint) return absl::OkStatus();
    checkpointer_->Start(*std::move(checkpoint));
    const std::optional<Checkpointer::Result> result = checkpointer_->Wait();
    MILLRACE_ASSIGN_OR_RETURN(const bool durable, Take(*result));
    // Cancelled: stopped while the broker is away. The log has what the checkpoint has not.
    if (durable || absl::IsCancelled(result->status)) return absl::OkStatus();
  }
  // Nothing is lost: the log has what the checkpoint has not.
  return absl::OkStatus();
}

}  // namespace millrace
