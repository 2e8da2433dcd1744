#include "server/hosted_shard.h"

#include <spdlog/spdlog.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/random_number.h"
#include "durability/checkpoints/parameters_tail.h"
#include "durability/snapshots/snapshot_files.h"
#include "durability/snapshots/snapshot_reader.h"
#include "kafka/timeouts.h"
#include "stores/store_generation.h"
#include "tasks/task_options.h"
#include "topics/topics.h"

namespace millrace {

ServerOptions MakeHostedOptions(const JobConfig& config, const JobFeatures& features,
                                const JobTraining& training, ShardId shard) {
  const Server& server = config.server();
  ServerOptions options = MakeServerOptions(features, training, shard);
  options.weights_from_workers = server.weights_from_workers();
  if (!options.embeddings) return options;
  constexpr uint32_t kScratchPerCache = 16;
  const size_t scratch_mib = server.has_embedding_scratch_mib()
                                 ? size_t{server.embedding_scratch_mib()}
                                 : size_t{kScratchPerCache} * server.embedding_cache_mib();
  options.embeddings->cache_bytes = size_t{server.embedding_cache_mib()} << 20;
  options.embeddings->scratch_bytes = scratch_mib << 20;
  options.embeddings->scratch_folder = server.data_dir();
  return options;
}

HostedShard::HostedShard(const JobConfig& config, ShardId shard)
    : shard_(shard),
      cycle_({std::chrono::duration<double>(config.server().checkpoint_interval_s()),
              config.server().checkpoint_records(), config.server().replicas(),
              std::chrono::steady_clock::now()}) {}

StatusOr<std::unique_ptr<HostedShard>> HostedShard::Open(const JobConfig& config,
                                                         const ServerOptions& options,
                                                         uint64_t generation,
                                                         const FetchCopy& fetch, Wakeup* wakeup,
                                                         const std::atomic<bool>& stop) {
  std::unique_ptr<HostedShard> hosted(new HostedShard(config, options.number()));
  // Fencing comes first: what is read afterwards, no older instance can change.
  MILLRACE_ASSIGN_OR_RETURN(hosted->log_,
                            KafkaCheckpointLog::Create(config, options.number(), stop));
  Status restored = hosted->Restore(config, options, generation, fetch, stop);
  if (absl::IsDataLoss(restored) && hosted->copy_.source == ShardCopy::Source::kPeer) {
    spdlog::warn(
        "shard {}: the replica of {} cannot be used: {}; the whole partition of parameters is read",
        options.number(), hosted->copy_.peer, TextOf(restored));
    hosted->phases_ = {};
    hosted->task_.reset();
    hosted->copy_.store.reset();
    MILLRACE_RETURN_IF_ERROR(RemoveShardStore(hosted->copy_));
    restored = hosted->Restore(config, options, generation, nullptr, stop);
  }
  MILLRACE_RETURN_IF_ERROR(restored);
  hosted->checkpointer_ =
      std::make_unique<Checkpointer>(*hosted->log_, *hosted->copy_.store, wakeup);
  return hosted;
}

Status HostedShard::Restore(const JobConfig& config, const ServerOptions& options,
                            uint64_t generation, const FetchCopy& fetch,
                            const std::atomic<bool>& stop) {
  using std::chrono::steady_clock;
  const auto begin = steady_clock::now();
  MILLRACE_ASSIGN_OR_RETURN(copy_, OpenShardStore(config, shard_, fetch));
  MILLRACE_RETURN_IF_ERROR(ClaimForGeneration(*copy_.store, generation, copy_.folder));
  phases_.source = copy_.source;
  phases_.peer = copy_.peer;
  phases_.restored_bytes = copy_.bytes;
  const auto opened = steady_clock::now();
  MILLRACE_RETURN_IF_ERROR(CatchUp(config, stop));
  const auto caught_up = steady_clock::now();
  phases_.parameters_s = std::chrono::duration<double>(caught_up - opened).count();
  task_ = std::make_unique<ShardTask>(options, *copy_.store);
  MILLRACE_RETURN_IF_ERROR(task_->Load());
  const auto restore = opened - begin + (steady_clock::now() - caught_up);
  phases_.restore_s = std::chrono::duration<double>(restore).count();
  return absl::OkStatus();
}

// What stands in `parameters` after the copy's offset goes to the disk first, and is read from
// there: then no memory is needed for it.
Status HostedShard::CatchUp(const JobConfig& config, const std::atomic<bool>& stop) {
  Wakeup wakeup;
  StatusOr<std::unique_ptr<ParametersTail>> tail =
      ParametersTail::Create(config, shard_, *copy_.store, &wakeup, stop);
  if (absl::IsOutOfRange(tail.status())) {
    return absl::DataLossError(
        std::string(tail.status().message()) + ": the store of shard " + std::to_string(shard_) +
        " is a copy of an earlier topic of this name, or the topic lost its end. Restore the topic "
        "if possible. " +
        copy_.folder +
        " may be the best copy left: keep it. To continue without it, move it away: the shard then "
        "continues from what the topic has, or with --weights-from-workers from the workers' "
        "weights");
  }
  MILLRACE_RETURN_IF_ERROR(tail.status());
  // What dies with this process meanwhile the next one reads again.
  constexpr size_t kBulk = 1000;
  const auto read = [&]() -> Status {
    while (!(*tail)->caught_up()) {
      if (stop) return absl::CancelledError("stopped");
      MILLRACE_ASSIGN_OR_RETURN(
          const size_t events, (*tail)->Poll([&](CheckpointAssembler::Part part) {
            Count(part);
            return copy_.store->Write(BatchOf(std::move(part.entries), part.end));
          }));
      if (events == 0) wakeup.WaitFor(kPoll);
    }
    return absl::OkStatus();
  };
  const Status done = (*tail)->behind() >= kBulk ? copy_.store->FillInBulk(read) : read();
  if (absl::IsOutOfRange(done)) {
    return absl::DataLossError(std::string(done.message()) + "; start this server again");
  }
  MILLRACE_RETURN_IF_ERROR(done);
  if (!(*tail)->unfinished()) return NumberIncarnation();
  return absl::DataLossError(TopicName(config, Topic::kParameters) + ", partition " +
                             std::to_string(shard_) +
                             ": the last checkpoint is incomplete: records were deleted. Restore "
                             "the topic, or start a new job (another --job)");
}

Status HostedShard::NumberIncarnation() {
  MILLRACE_ASSIGN_OR_RETURN(const Offset read, ReadParametersOffset(*copy_.store));
  if (read > 0) return absl::OkStatus();
  return ProposeIncarnation(*copy_.store, RandomNumber());
}

void HostedShard::Count(const CheckpointAssembler::Part& part) {
  phases_.parameters_records += part.entries.size();
  for (const Checkpoint::Entry& entry : part.entries) {
    phases_.parameters_bytes += entry.key.size() + entry.value.size();
  }
}

Status HostedShard::StartReplay(const JobConfig& config, const ServerOptions& options,
                                const std::string& start, Offset begin, Offset end) {
  if (!start.empty() && BeginsWithSnapshot(*task_, begin)) {
    const auto began = std::chrono::steady_clock::now();
    MILLRACE_RETURN_IF_ERROR(StartFromSnapshot(config, options, start));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    phases_.restore_s += took.count();
  }
  return task_->StartReplay(begin, end);
}

Status HostedShard::StartFromSnapshot(const JobConfig& config, const ServerOptions& options,
                                      const std::string& start) {
  if (!config.server().has_from_snapshot()) {
    return absl::FailedPreconditionError("shard " + std::to_string(shard_) +
                                         " has not started yet, and its job starts from snapshot " +
                                         start + ": give its folder with --from-snapshot");
  }
  const std::string& folder = config.server().from_snapshot();
  MILLRACE_ASSIGN_OR_RETURN(const SnapshotManifest manifest, CheckSnapshot(folder));
  MILLRACE_ASSIGN_OR_RETURN(
      millrace::Checkpoint first,
      ReadFirstCheckpoint(folder, manifest, options, ToSnapshotStart(config)));
  MILLRACE_RETURN_IF_ERROR(BeginWith(std::move(first), options));
  spdlog::info("shard {}: starts from snapshot {}", shard_, folder);
  return absl::OkStatus();
}

Status HostedShard::BeginWith(millrace::Checkpoint first, const ServerOptions& options) {
  CheckpointRun run(std::move(first), *log_, *copy_.store);
  while (!run.done()) MILLRACE_RETURN_IF_ERROR(run.Step());
  task_ = std::make_unique<ShardTask>(options, *copy_.store);
  return task_->Load();
}

StatusOr<CheckpointCycle::End> HostedShard::Take(const Checkpointer::Result& result,
                                                 std::chrono::steady_clock::time_point now) {
  MILLRACE_ASSIGN_OR_RETURN(const CheckpointCycle::End end,
                            cycle_.Finish(*task_, result.checkpoint, result.status, now));
  if (end != CheckpointCycle::End::kAborted) return end;
  const std::string_view why = TextOf(result.status);
  const std::chrono::duration<double> wait = cycle_.backoff().wait();
  spdlog::warn(
      "shard {}: a checkpoint was aborted ({} in a row): {}. Nothing is lost; the next one "
      "includes all of it, and is tried in {:.0f} s",
      shard_, aborted_checkpoints(), why, wait.count());
  return end;
}

StatusOr<bool> HostedShard::Checkpoint(std::chrono::steady_clock::time_point now, bool at_once) {
  WarnOfTimeJumps();
  if (const std::optional<Checkpointer::Result> result = checkpointer_->Finished()) {
    MILLRACE_ASSIGN_OR_RETURN(const CheckpointCycle::End end, Take(*result, now));
    return end == CheckpointCycle::End::kDurable;
  }
  if (checkpointer_->busy()) return false;
  MILLRACE_ASSIGN_OR_RETURN(std::optional<millrace::Checkpoint> checkpoint,
                            at_once ? cycle_.Begin(*task_, now) : cycle_.BeginIfDue(*task_, now));
  if (!checkpoint) return false;
  WarnOfScratch();
  checkpointer_->Start(*std::move(checkpoint));
  return false;
}

void HostedShard::WarnOfTimeJumps() {
  const uint64_t jumps = task_->processor().counters().time_jumps();
  if (jumps > time_jumps_) {
    spdlog::warn(
        "shard {}: the timestamps of records in gradients jumped by more than six hours ({} times "
        "so far): the stream paused, or a broker's clock is wrong; check the clocks. With "
        "--expire-after, embedding rows expire by these timestamps",
        shard_, jumps);
  }
  time_jumps_ = jumps;
}

void HostedShard::WarnOfScratch() {
  const EmbeddingTable* const table = task_->processor().embeddings();
  if (warned_of_scratch_ || table == nullptr || table->scratch_status().ok()) return;
  warned_of_scratch_ = true;
  spdlog::warn(
      "shard {}: the scratch file of embedding rows cannot grow: {}; until the next start further "
      "rows are read from RocksDB, which is slower",
      shard_, std::string(table->scratch_status().message()));
}

StatusOr<bool> HostedShard::AdvanceSave(std::chrono::steady_clock::time_point now) {
  MILLRACE_CHECK(saving_.value_or(task_->position()) == task_->position());
  saving_ = task_->position();
  MILLRACE_ASSIGN_OR_RETURN(const bool is_over, SaveSome(now));
  if (is_over) saving_.reset();
  return is_over;
}

StatusOr<bool> HostedShard::SaveSome(std::chrono::steady_clock::time_point now) {
  if (checkpointer_->busy()) {
    const std::optional<Checkpointer::Result> result = checkpointer_->Finished();
    if (!result) return false;
    MILLRACE_ASSIGN_OR_RETURN(const CheckpointCycle::End end, Take(*result, now));
    if (cycle_.GivesUpSaving(end)) return true;
  }
  MILLRACE_ASSIGN_OR_RETURN(std::optional<millrace::Checkpoint> checkpoint,
                            cycle_.Begin(*task_, now));
  if (!checkpoint) return true;
  checkpointer_->Start(*std::move(checkpoint));
  return false;
}

Status HostedShard::FinalCheckpoint() {
  const auto now = [] { return std::chrono::steady_clock::now(); };
  if (const std::optional<Checkpointer::Result> result = checkpointer_->Wait()) {
    MILLRACE_RETURN_IF_ERROR(Take(*result, now()).status());
  }
  for (int i = 0; i < CheckpointCycle::kSaves; ++i) {
    // Stopped while the broker is away: no other will do better. The log has what it has not.
    if (cycle_.is_stopped()) return absl::OkStatus();
    MILLRACE_ASSIGN_OR_RETURN(std::optional<millrace::Checkpoint> checkpoint,
                              cycle_.Begin(*task_, now()));
    if (!checkpoint) return absl::OkStatus();
    checkpointer_->Start(*std::move(checkpoint));
    const std::optional<Checkpointer::Result> result = checkpointer_->Wait();
    MILLRACE_ASSIGN_OR_RETURN(const CheckpointCycle::End end, Take(*result, now()));
    if (end == CheckpointCycle::End::kDurable) return absl::OkStatus();
  }
  // Nothing is lost: the log has what the checkpoint has not.
  return absl::OkStatus();
}

}  // namespace millrace
