// What a worker does with a weights message: an update computed on its batch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "messages/records.pb.h"
#include "models/evaluation.h"
#include "models/model.h"
#include "models/moments.h"
#include "processors/batch_source.h"
#include "processors/batch_trainer.h"
#include "processors/update_encoder.h"
#include "processors/worker_options.h"
#include "topics/weights_codec.h"

namespace millrace {

// What processing leads to.
struct WorkerOutput {
  struct Message {
    ShardId shard = 0;
    std::shared_ptr<const std::string> body;  // an encoded Gradient; kept for a repetition
  };
  std::vector<Message> messages;

  // For the local evaluation log: the batch, tested by the weights it is about to change.
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

// Everything hangs on one function, TryTrain, which is called after each weights message and after
// rows have come: a clock without rows is owed until rows come, rows without a clock wait for it.
// Nothing sleeps. Pure; not thread-safe.
class WorkerTrainingProcessor {
 public:
  // All references outlive the processor.
  WorkerTrainingProcessor(const WorkerOptions& options, const Model& model, BatchSource& source);

  // Asks every shard where this worker stands.
  void Start(WorkerOutput& output);

  // Takes the body of a Weights message. InvalidArgument when it is of another epoch, shape or
  // worker count; nothing has changed then.
  Status ProcessWeights(std::string_view body);

  // Sends the update that is owed, if its rows are there. ResourceExhausted when it is larger than
  // a message may be.
  Status TryTrain(WorkerOutput& output);

  // Sends again what is unanswered. The runtime calls it after a while without an answer, and when
  // a delivery failed for good; it changes no result.
  void Repeat(WorkerOutput& output);

  // Every shard has said where this worker stands.
  bool answered() const;
  // The shards that have not, ascending.
  std::vector<ShardId> SilentShards() const;
  // Every shard knows that this worker has left.
  bool left() const;
  // What the server last said.
  const Progress& progress() const { return progress_; }
  // The weights of `progress().clock` have come and no update has been sent for it yet.
  bool owes_update() const { return owed_; }
  RowNumber NeededFrom() const { return source_.NeededFrom(progress_); }

 private:
  struct Part {
    bool known = false;
    Clock clock = 0;
    bool released = false;
    bool left = false;
    bool asked_again = false;  // by Repeat, and not answered since
    Weights message;
    // Sequential, when other shards are still at the clock before: what this one answered then.
    bool asked_for_replaced = false;
    std::optional<Weights> replaced;
    std::optional<Clock> asked_for_embeddings;  // of which clock
    bool asked_to_restore = false;              // the shard has lost its state
    std::optional<Clock> leave_sent;            // of which clock
  };

  Gradient NewMessage() const;
  WeightsShape Shape() const;
  // Whether the part's clock is one that the worker can have got to.
  bool IsBorneOut(const Part& part) const { return source_.Reaches(part.clock); }
  void Take(Weights message);
  // Appends the message to `output`. One that cannot be serialised is an error of the next
  // TryTrain.
  void Send(ShardId shard, const Gradient& message, WorkerOutput& output);
  // For what is new, or for the answer of `clock`, with these embedding rows.
  void Ask(ShardId shard, std::optional<Clock> clock, const std::vector<EmbeddingId>& wanted,
           WorkerOutput& output);
  // Says to shards that have lost their state what this worker has of it.
  void AnswerLostShards(WorkerOutput& output);
  Gradient RestoreOf(const Part& part, std::optional<Clock> least, const SourceBegin& begin) const;
  // The least clock at which a shard has this worker, and how far shard 0 has counted its rows.
  void UpdateProgress();
  // What is done about rows that were deleted.
  Status OnMissingRows(const Status& missing);
  // Whether every shard has said what it must have said at `clock`; asks those that have gone on.
  bool HasEveryPart(Clock clock, WorkerOutput& output);
  // What the shard said of the clock that is to be answered.
  const Weights& MessageOf(const Part& part) const;
  // Whether every shard has sent the embedding rows of the batch; asks those that have not. A
  // worker that could look ahead has said already, with the last update, what it would need.
  bool HasEmbeddings(WorkerOutput& output);
  bool LacksEmbeddings(ShardId shard) const;
  void AskForEmbeddings(ShardId shard, WorkerOutput& output);
  // Each once, ascending, by the shard that has them.
  std::vector<std::vector<EmbeddingId>> ByShard(std::vector<EmbeddingId> ids) const;
  std::vector<std::vector<EmbeddingId>> IdsOf(RowsView rows) const;
  bool SomeoneLeft() const;
  bool IsSequential() const {
    return options_.training.consistency().model() == Training::Consistency::SEQUENTIAL;
  }
  // What shard 0 has said of a snapshot, to be passed on to all shards.
  const SnapshotMark& Mark() const { return MessageOf(parts_[0]).mark(); }
  // Sends a leave to each shard that has none of its present clock; `again`: that is not known to
  // have it.
  void LeaveAll(bool again, WorkerOutput& output);
  void SendUpdate(WorkerOutput& output);
  // The update but for the shards' parts of it.
  Gradient NewUpdate(const BatchTrainer::Result& result);
  // What only shard 0 is told.
  void AddFigures(const BatchTrainer::Result& result, Gradient::Update& update) const;
  void AssembleWeights();
  void AssembleEmbeddings();
  KeyRange RangeOf(ShardId shard) const;

  WorkerOptions options_;
  const Model& model_;
  BatchSource& source_;
  BatchTrainer trainer_;
  UpdateEncoder encoder_;

  std::vector<Part> parts_;  // by shard
  Progress progress_;
  bool owed_ = false;
  std::optional<Clock> sent_clock_;  // of the last update or leave
  bool leaving_ = false;             // the last was a leave
  std::vector<WorkerOutput::Message> unanswered_;
  Status failed_ = absl::OkStatus();  // to send a message
  uint64_t attempts_ = 0;
  Clock missing_rows_clock_ = 0;
  uint32_t missing_rows_ = 0;  // questions in a row whose answers asked for rows not there
  bool asked_ = true;          // since the last such answer
  uint64_t rows_seen_ = 0;

  std::vector<std::vector<EmbeddingId>> needed_;  // embedding rows of the batch, by shard

  // Scratch that keeps its memory.
  std::vector<float> weights_;
  Moments moments_;
  Batch batch_;
  BatchRows rows_;  // all that are needed_
};

}  // namespace millrace
