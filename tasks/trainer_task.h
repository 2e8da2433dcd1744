// A trainer of one's own as a pure state machine: steps and weights in, updates out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "models/model.h"
#include "processors/trainer_steps.h"
#include "processors/worker_training_processor.h"
#include "tasks/weights_joiner.h"
#include "topics/outgoing_record.h"

namespace millrace {

// A worker of the job (tasks/worker_task.h) whose updates are steps(). Life of a task: Start, after
// the reader of `weights` is at the end of its partition; then ProcessWeights and steps in any
// order, Advance after either. When the job goes over to other shards: GoOver, and Start again. Not
// thread-safe; no call blocks.
class TrainerTask {
 public:
  // `model` has the parameters of `keys`, and rows as wide as the widest of options.tables; it
  // outlives the task. `attempt` is different for every
  // task ever started.
  TrainerTask(const WorkerOptions& options, const Model& model, std::vector<KeyRange> keys,
              uint64_t attempt);

  // The job has other shards from now on, which `options` say. What is kept of steps is for them,
  // and everything else is as in a new task.
  void GoOver(const WorkerOptions& options, uint64_t attempt);

  TrainerSteps& steps() { return steps_; }
  const TrainerSteps& steps() const { return steps_; }

  // Asks the shards where the trainer stands, and for the newest values.
  void Start(std::vector<OutgoingRecord>& out);
  // A record of the worker's partition of `weights`. InvalidArgument or ResourceExhausted with the
  // reason why it is unusable; nothing has changed then.
  Status ProcessWeights(std::string_view key, std::string_view value);
  // A shared record (SharedWeightsReader).
  void ProcessShared(const std::shared_ptr<const SharedWeights>& shared) {
    training_->ProcessShared(shared);
  }
  // Makes the steps that are due. Errors: ResourceExhausted when one is larger than a message can
  // be, and those of `out`; what that has not taken is sent by Repeat.
  Status Advance(const RecordSink& out);
  // Repeats unanswered messages; see WorkerTrainingProcessor::Repeat.
  void Repeat(std::vector<OutgoingRecord>& out);

  bool answered() const { return training_->answered(); }
  std::vector<ShardId> SilentShards() const { return training_->SilentShards(); }
  bool left() const { return training_->left(); }
  // So many of its steps every shard has taken, once answered() and advanced.
  Clock clock() const { return training_->progress().clock; }

 private:
  void Begin(const WorkerOptions& options, uint64_t attempt);
  Status Send(const RecordSink& out);

  const Model& model_;
  WorkerOptions options_;
  TrainerSteps steps_;
  std::optional<WorkerTrainingProcessor> training_;  // there from the beginning on
  WeightsJoiner joiner_;
  uint64_t next_message_id_ = 0;
  WorkerOutput output_;  // scratch
};

}  // namespace millrace
