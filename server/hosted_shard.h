// A shard task with its store, its checkpoints and its recovery.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "durability/checkpoints/checkpointer.h"
#include "durability/checkpoints/kafka_checkpoint_log.h"
#include "durability/checkpoints/shard_store.h"
#include "kafka/wakeup.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"
#include "server/recovery_phases.h"
#include "tasks/checkpoint_assembler.h"
#include "tasks/checkpoint_cycle.h"
#include "tasks/first_checkpoint.h"
#include "tasks/shard_task.h"

namespace millrace {

// Used by one thread; checkpoints run in the background.
class HostedShard {
 public:
  // Fences older instances, takes a copy (OpenShardStore), brings it up to the end of `parameters`.
  // A copy from another server that does not match the topic is discarded, and the whole topic is
  // read. What remains is to replay `gradients`. DataLoss when the own copy is of another
  // generation of the job's topics (JobRegistry).
  static StatusOr<std::unique_ptr<HostedShard>> Open(const JobConfig& config,
                                                     const ServerOptions& options,
                                                     uint64_t generation, const FetchCopy& fetch,
                                                     Wakeup* wakeup, const std::atomic<bool>& stop);

  // `gradients` holds [begin, end). A shard that has not started yet starts from the snapshot
  // `start` of its job (empty: none).
  Status StartReplay(const JobConfig& config, const ServerOptions& options,
                     const std::string& start, Offset begin, Offset end);

  // Whether the shard has not started yet: then it may be given its first checkpoint before
  // StartReplay. `begin`: of `gradients`.
  bool HasNotStarted(Offset begin) const { return BeginsWithSnapshot(*task_, begin); }
  // Makes `first` the shard's first checkpoint, and loads it. REQUIRES HasNotStarted.
  Status BeginWith(millrace::Checkpoint first, const ServerOptions& options);

  ShardTask& task() { return *task_; }
  const ShardTask& task() const { return *task_; }
  ShardId shard() const { return shard_; }
  // The phases in Open and StartReplay; the caller adds the others.
  const RecoveryPhases& phases() const { return phases_; }

  // Starts a checkpoint when one is due, takes the result of one that has finished. Returns true
  // when one has become durable. One that was aborted is logged with the reason, and the next one
  // waits longer and longer. Errors: FailedPrecondition, marked, when fenced; PermissionDenied and
  // other permanent ones; those of the store.
  // `at_once`: one is due whatever the time.
  StatusOr<bool> Checkpoint(std::chrono::steady_clock::time_point now, bool at_once = false);
  // Makes everything that was processed durable, without waiting. Returns true when it is durable,
  // or when that failed several times in a row (see task().saved()). REQUIRES: the task's position
  // is the same in all calls until then, since nothing is processed.
  StatusOr<bool> AdvanceSave(std::chrono::steady_clock::time_point now);
  // Checkpoints in a row that were aborted.
  uint32_t aborted_checkpoints() const { return cycle_.backoff().failures(); }
  // The last checkpoint that became durable.
  const OrderedByteMap& store() const { return *copy_.store; }
  // Makes everything that was processed durable; waits for it.
  Status FinalCheckpoint();

 private:
  HostedShard(const JobConfig& config, ShardId shard);

  Status Restore(const JobConfig& config, const ServerOptions& options, uint64_t generation,
                 const FetchCopy& fetch, const std::atomic<bool>& stop);
  // Brings the store up to the end of `parameters`.
  Status CatchUp(const JobConfig& config, const std::atomic<bool>& stop);
  // Gives a partition of `parameters` that has no checkpoint its number (tasks/checkpoint.h).
  Status NumberIncarnation();
  void Count(const CheckpointAssembler::Part& part);
  // Warns when the log's time has jumped since the last call: rows may have expired by it.
  void WarnOfTimeJumps();
  // Warns once when the scratch file of the embedding rows cannot grow.
  void WarnOfScratch();
  // Makes the snapshot that the job starts from the shard's first checkpoint.
  Status StartFromSnapshot(const JobConfig& config, const ServerOptions& options,
                           const std::string& start);
  // The next step of AdvanceSave, with the same result.
  StatusOr<bool> SaveSome(std::chrono::steady_clock::time_point now);
  // Logs a checkpoint that was aborted. Errors are those of CheckpointCycle::Finish.
  StatusOr<CheckpointCycle::End> Take(const Checkpointer::Result& result,
                                      std::chrono::steady_clock::time_point now);

  ShardId shard_;
  ShardCopy copy_;
  RecoveryPhases phases_;
  std::unique_ptr<KafkaCheckpointLog> log_;
  std::unique_ptr<ShardTask> task_;
  std::unique_ptr<Checkpointer> checkpointer_;  // after what it uses
  CheckpointCycle cycle_;
  std::optional<Offset> saving_;  // the position that AdvanceSave saves
  bool warned_of_scratch_ = false;
  uint64_t time_jumps_ = 0;  // that were warned of
};

// The options of a shard that this process hosts, from the configuration.
ServerOptions MakeHostedOptions(const JobConfig& config, const JobFeatures& features,
                                const JobTraining& training, ShardId shard);

// The shards of this process.
using HostedShards = std::map<ShardId, std::unique_ptr<HostedShard>>;

}  // namespace millrace
