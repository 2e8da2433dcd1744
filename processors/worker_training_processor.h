// Processes weights messages: computes an update on the worker's batch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "messages/records.pb.h"
#include "models/evaluation.h"
#include "models/model.h"
#include "models/moments.h"
#include "processors/batch_source.h"
#include "processors/batch_trainer.h"
#include "processors/row_history.h"
#include "processors/shard_view.h"
#include "processors/trainer_steps.h"
#include "processors/update_encoder.h"
#include "processors/updates_in_flight.h"
#include "processors/worker_options.h"

namespace millrace {

// The results of processing.
struct WorkerOutput {
  std::vector<WorkerMessage> messages;

  // For the local evaluation log: the batch, tested with the weights that it is about to change.
  struct Evaluation {
    Clock clock = 0;
    EvaluationFigures figures;
    uint64_t rows_seen = 0;
  };
  std::vector<Evaluation> evaluations;

  void Clear() {
    messages.clear();
    evaluations.clear();
  }
};

// TryTrain is called after each weights message and whenever rows have arrived: it sends an update
// when both the weights of a clock and the rows of its batch are present, and in bounded and
// eventual jobs further ones on the same weights, as many as may be in flight
// (WorkerOptions::pipeline). Nothing sleeps. Pure; not thread-safe.
class WorkerTrainingProcessor {
 public:
  // All references outlive the processor. Its messages have the numbers after `last_number`, which
  // no other instance of the worker uses.
  WorkerTrainingProcessor(const WorkerOptions& options, const Model& model, BatchSource& source,
                          uint64_t last_number);
  // Of a trainer of one's own, whose steps the updates are.
  WorkerTrainingProcessor(const WorkerOptions& options, const Model& model, TrainerSteps& steps,
                          uint64_t last_number);

  // Those that have joined the running job, ascending by worker: its leave tells the shards of
  // them.
  void KnowJoined(std::vector<Gradient::Joined> joined) { joined_ = std::move(joined); }

  // Asks every shard for this worker's clock.
  void Start(WorkerOutput& output);

  // Takes the body of a Weights message. InvalidArgument when it is of another epoch, shape or
  // worker count; nothing has changed then.
  Status ProcessWeights(std::string_view body);
  // Takes a shared record, which DecodeSharedWeights has checked for WeightsShapeFrom(options).
  // Returns whether it has an answer to this worker, or values that an answer is waiting for.
  bool ProcessShared(const std::shared_ptr<const SharedWeights>& shared);

  // Sends the due updates whose rows are present. ResourceExhausted when the message would be too
  // large.
  Status TryTrain(WorkerOutput& output);

  // Repeats unanswered messages. The loop calls it after a time without an answer, and when a
  // delivery failed permanently; it changes no result.
  void Repeat(WorkerOutput& output);

  // Whether every shard has reported this worker's clock.
  bool answered() const;
  // The shards that have not reported it, ascending.
  std::vector<ShardId> SilentShards() const;
  // Whether every shard knows that this worker has left.
  bool left() const;
  // How often a shard has denied that this worker had left it, which somebody had made up.
  uint64_t denied_leaves() const { return denied_leaves_; }
  // The progress that the server last reported.
  const Progress& progress() const { return progress_; }
  // Whether the weights of `progress().clock` have arrived and no update is in flight.
  bool owes_update() const { return owed_; }
  SourceBegin NeededFrom() const { return source_.NeededFrom(progress_); }

 private:
  using Part = ShardView;

  Gradient NewMessage();
  // Whether this instance has sent the message with this number.
  bool IsOurs(uint64_t number) const { return number > first_number_ && number <= last_number_; }
  // Whether the worker has had the rows that the part's clock stands for.
  bool IsBorneOut(const Part& part) const {
    return source_.Reaches(RowNumber(part.message->rows().end()));
  }
  // ShardView::Take.
  void Take(Weights message, std::shared_ptr<const SharedWeights> values);
  // Appends the message to `output`. One that cannot be serialised is an error of the next
  // TryTrain.
  void Send(ShardId shard, const Gradient& message, WorkerOutput& output);
  // Asks the shard for a reply, once for what it has said.
  void AskInDoubt(ShardId shard, WorkerOutput& output);
  // Requests the newest state, or the answer at `clock`, with these embedding rows.
  void Ask(ShardId shard, std::optional<Clock> clock, const std::vector<EmbeddingId>& wanted,
           WorkerOutput& output);
  // Reports this worker's weights to shards that have lost their state.
  void AnswerLostShards(WorkerOutput& output);
  // Reports to shards that are set back, without weights: each may have lost its state, and been
  // restored from what an older instance of this worker knew.
  void ReportToShardsSetBack(WorkerOutput& output);
  // The lowest clock of this worker in the shards that have said it.
  std::optional<Clock> LeastClock() const;
  // Sends what is unanswered, or asks.
  void SendAgain(WorkerOutput& output);
  // The highest, if it can have reached that; 0: in none.
  Clock NewestClock() const;
  // The report of what it knows of a shard.
  Gradient RestoreOf(const Part& part, const SourceBegin& begin);
  // How far the worker's rows were counted at this clock, if another shard has said it.
  void AddRowsOfOthers(Gradient::Restore& restore, Clock clock) const;
  // The lowest clock of this worker in any shard, and how far shard 0 has counted its rows.
  void UpdateProgress();
  // Handles the case that rows were deleted.
  Status OnMissingRows(const Status& missing);
  // Sends the update that comes next. Returns whether it could.
  StatusOr<bool> TrainNext(WorkerOutput& output);
  // Whether every shard has sent what the update of `next` may be made from; requests the answer at
  // the clock of `progress_` from shards that are further.
  bool HasEveryPart(Clock next, WorkerOutput& output);
  // No worker may be below this clock where one makes the update of `clock`: the bound.
  Clock LeastMinClock(Clock clock) const;
  // The shard's answer at the clock that the update is for.
  const std::shared_ptr<const Weights>& AnswerOf(const Part& part) const;
  const Weights& MessageOf(const Part& part) const { return *AnswerOf(part); }
  // Whether every shard has sent the embedding rows of the batch; requests them from those that
  // have not. (A worker that knew the next batch has requested its rows with the last update.)
  bool HasEmbeddings(WorkerOutput& output);
  bool LacksEmbeddings(ShardId shard) const;
  // Appends where the values of the shard's needed_ rows are. REQUIRES: !LacksEmbeddings(shard).
  void FindRows(ShardId shard, std::vector<const float*>& found) const;
  void AskForEmbeddings(ShardId shard, WorkerOutput& output);
  // Of the embedding rows that the rows name: distinct ids, ascending, by shard.
  std::vector<std::vector<EmbeddingId>> IdsOf(RowsView rows) const;
  bool SomeoneLeft() const;
  bool IsSequential() const {
    return options_.training.consistency().model() == Training::Consistency::SEQUENTIAL;
  }
  // Shard 0's snapshot mark, which is passed on to all shards.
  const SnapshotMark& Mark() const { return MessageOf(parts_[0]).mark(); }
  // The worker has left a shard, as that says: leaves all. FailedPrecondition when rows are here
  // that no update has counted: somebody else has left in its name.
  Status FollowLeave(WorkerOutput& output);
  // Whether it may have been made up that the worker has left the shard.
  static bool IsDoubtful(const Part& part) { return part.left && !part.left_is_sure; }
  // Asks the shards whose word for it may have been made up. Returns whether there are any.
  bool DoubtsLeave(bool again, WorkerOutput& output);
  // An error when the source has rows that come after the leave.
  Status CheckLeave();
  // Sends a leave to each shard that was not sent one at its present clock; `again`: to each shard
  // that has not confirmed it.
  void LeaveAll(bool again, WorkerOutput& output);
  // Gives the values of next_ to the trainer, who makes its step of them.
  void OfferValues();
  // The same of the rows that the step is to read; requests those that have not come.
  void OfferRows(WorkerOutput& output);
  // The update of next_, with its step.
  void SendStep(WorkerOutput& output);
  // The update of next_, with batch_.
  void SendUpdate(WorkerOutput& output);
  // The parts of an update of next_, as `encode` makes them; `number` is that of their messages.
  void SendParts(uint64_t number,
                 const std::function<StatusOr<MessageBytes>(ShardId shard)>& encode,
                 WorkerOutput& output);
  // The update without the shards' parts of it.
  Gradient NewUpdate(const BatchTrainer::Result& result);
  void AssembleWeights();
  void AssembleEmbeddings();
  KeyRange RangeOf(ShardId shard) const;

  WorkerOptions options_;
  const Model& model_;
  BatchSource& source_;
  TrainerSteps* steps_ = nullptr;  // the source, if it is one of steps
  BatchTrainer trainer_;
  UpdateEncoder encoder_;

  std::vector<Part> parts_;  // by shard
  Progress progress_;
  bool owed_ = false;
  UpdatesInFlight in_flight_;
  std::vector<Gradient::Joined> joined_;
  Progress next_;                     // what the next update is made for
  std::optional<Clock> leave_clock_;  // of the leave that was sent
  uint64_t denied_leaves_ = 0;
  Status failed_ = absl::OkStatus();  // the error of sending a message
  uint64_t attempts_ = 0;
  uint64_t first_number_;  // of this instance's messages, less one
  uint64_t last_number_;
  Clock missing_rows_clock_ = 0;
  uint32_t missing_rows_ = 0;  // consecutive answers whose rows are missing
  bool asked_ = true;          // since the last such answer
  uint64_t rows_seen_ = 0;

  std::vector<std::vector<EmbeddingId>> needed_;  // embedding rows of the batch, by shard

  // Scratch that keeps its memory.
  std::vector<float> weights_;  // empty where steps_ make the updates
  Moments moments_;
  Batch batch_;
  BatchRows rows_;  // all that are needed_
};

}  // namespace millrace
