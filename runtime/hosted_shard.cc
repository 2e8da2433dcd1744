#include "runtime/hosted_shard.h"

#include <string>
#include <utility>

#include "runtime/job_options.h"
#include "runtime/parameters_tail.h"
#include "runtime/shard_store.h"
#include "runtime/waits.h"

namespace millrace {

HostedShard::HostedShard(const JobConfig& config, ShardId shard)
    : shard_(shard),
      schedule_(std::chrono::duration<double>(config.server().checkpoint_interval_s()),
                config.server().checkpoint_records(), std::chrono::steady_clock::now()) {}

StatusOr<std::unique_ptr<HostedShard>> HostedShard::Open(const JobConfig& config,
                                                         const ServerOptions& options,
                                                         Wakeup* wakeup,
                                                         const std::atomic<bool>& stop) {
  std::unique_ptr<HostedShard> hosted(new HostedShard(config, options.shard));
  // Fencing comes first: what is read afterwards, no older instance can change.
  MILLRACE_ASSIGN_OR_RETURN(hosted->log_, KafkaCheckpointLog::Create(config, options.shard, stop));
  MILLRACE_ASSIGN_OR_RETURN(hosted->store_, OpenShardStore(config, options.shard));
  MILLRACE_RETURN_IF_ERROR(hosted->CatchUp(config, stop));
  hosted->task_ = std::make_unique<ShardTask>(options, *hosted->store_);
  MILLRACE_RETURN_IF_ERROR(hosted->task_->Load());
  hosted->checkpointer_ = std::make_unique<Checkpointer>(*hosted->log_, *hosted->store_, wakeup);
  return hosted;
}

// What stands in `parameters` behind the copy goes to the disk first, and is read from there: then
// no memory is needed for it.
Status HostedShard::CatchUp(const JobConfig& config, const std::atomic<bool>& stop) {
  Wakeup wakeup;
  MILLRACE_ASSIGN_OR_RETURN(const Offset from, ParametersOffsetOf(*store_));
  StatusOr<std::unique_ptr<ParametersTail>> tail =
      ParametersTail::Create(config, shard_, from, &wakeup, stop);
  if (absl::IsOutOfRange(tail.status())) {
    return absl::DataLossError(std::string(tail.status().message()) +
                               ", up to which the store of shard " + std::to_string(shard_) +
                               " has read it: the topic was made anew. Remove " +
                               config.server().data_dir() + ", or start a new job (another name)");
  }
  MILLRACE_RETURN_IF_ERROR(tail.status());
  while (!(*tail)->caught_up()) {
    if (stop) return absl::CancelledError("stopped");
    MILLRACE_ASSIGN_OR_RETURN(const size_t events,
                              (*tail)->Poll([&](CheckpointAssembler::Part part) {
                                return store_->Write(BatchOf(std::move(part.entries), part.end));
                              }));
    if (events == 0) wakeup.WaitFor(kPoll);
  }
  if (!(*tail)->unfinished()) return absl::OkStatus();
  return absl::DataLossError("parameters, partition " + std::to_string(shard_) +
                             ": the last checkpoint has no end; records were deleted by hand");
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
  if (const std::optional<Checkpointer::Result> result = checkpointer_->Finished()) {
    schedule_.End(now);
    return Take(*result);
  }
  if (checkpointer_->busy() ||
      !schedule_.Due(now, task_->records_since_checkpoint(), task_->memory_is_short())) {
    return false;
  }
  schedule_.Begin(now);
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
