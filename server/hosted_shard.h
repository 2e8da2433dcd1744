// A shard task with what it needs of the world: its store, its checkpoints, its recovery.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "durability/checkpoints/checkpointer.h"
#include "durability/checkpoints/kafka_checkpoint_log.h"
#include "durability/checkpoints/shard_store.h"
#include "kafka/wakeup.h"
#include "messages/job.pb.h"
#include "server/recovery_phases.h"
#include "tasks/checkpoint_assembler.h"
#include "tasks/checkpoint_schedule.h"
#include "tasks/shard_task.h"

namespace millrace {

// Used by one thread; checkpoints run beside it.
class HostedShard {
 public:
  // Fences older instances, takes a copy (OpenShardStore), brings it up to the end of `parameters`.
  // A copy that another server has given and that does not fit the topic is forgotten, and all of
  // the topic read. What is left to do is to replay `gradients`.
  static StatusOr<std::unique_ptr<HostedShard>> Open(const JobConfig& config,
                                                     const ServerOptions& options,
                                                     const FetchCopy& fetch, Wakeup* wakeup,
                                                     const std::atomic<bool>& stop);

  // `gradients` holds [begin, end). A shard that has not begun begins with the snapshot `start` of
  // its job (empty: none).
  Status StartReplay(const JobConfig& config, const ServerOptions& options,
                     const std::string& start, Offset begin, Offset end);

  ShardTask& task() { return *task_; }
  const ShardTask& task() const { return *task_; }
  ShardId shard() const { return shard_; }
  // What Open and StartReplay did; the rest is their caller's.
  const RecoveryPhases& phases() const { return phases_; }

  // Starts a checkpoint when one is due, takes the result of one that has finished. Returns true
  // when one has become durable. Errors: FailedPrecondition when fenced; those of the store.
  StatusOr<bool> Checkpoint(std::chrono::steady_clock::time_point now);
  // What was made durable last.
  const OrderedByteMap& store() const { return *copy_.store; }
  // Makes everything that was processed durable; waits for it.
  Status FinalCheckpoint();

 private:
  HostedShard(const JobConfig& config, ShardId shard);

  Status Restore(const JobConfig& config, const ServerOptions& options, const FetchCopy& fetch,
                 const std::atomic<bool>& stop);
  // Brings the store up to the end of `parameters`.
  Status CatchUp(const JobConfig& config, const std::atomic<bool>& stop);
  void Count(const CheckpointAssembler::Part& part);
  // Once, when the scratch file of the embedding rows grows no further.
  void WarnOfScratch();
  // Makes the snapshot that the job starts from the shard's first checkpoint.
  Status StartFromSnapshot(const JobConfig& config, const ServerOptions& options,
                           const std::string& start);
  // True when durable, false when it was aborted and will be made again.
  StatusOr<bool> Take(const Checkpointer::Result& result);

  ShardId shard_;
  ShardCopy copy_;
  RecoveryPhases phases_;
  std::unique_ptr<KafkaCheckpointLog> log_;
  std::unique_ptr<ShardTask> task_;
  std::unique_ptr<Checkpointer> checkpointer_;  // after what it uses
  CheckpointSchedule schedule_;
  bool warned_of_scratch_ = false;
};

}  // namespace millrace
