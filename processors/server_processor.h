// What a shard does with a worker's message: the fold that is the server.
#pragma once

#include <cstdint>
#include <map>
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
#include "models/optimizer.h"
#include "processors/policy.h"
#include "processors/snapshot_cut.h"
#include "processors/vector_clock.h"
#include "stores/embedding_table.h"
#include "stores/ordered_byte_map.h"
#include "stores/parameter_shard.h"
#include "topics/frame.h"
#include "topics/packed_floats.h"

namespace millrace {

struct ServerOptions {
  uint64_t job = 0;  // its name's hash, which every message says
  uint64_t epoch = 1;
  ShardId shard = 0;
  uint32_t shards = 1;               // of the job
  KeyRange range;                    // of this shard
  uint64_t penalised_end = 0;        // keys from here on (the bias) are not penalised
  uint64_t linear_end = UINT64_MAX;  // keys from here on (a network's) are not of a linear model
  std::vector<RandomInitRange> random_init_ranges{};  // of the job's keys; the others start at zero
  uint64_t seed = 1;                                  // of the random initial weights
  uint32_t workers = 1;
  size_t classes = 2;
  size_t numeric_columns = 0;
  ConsistencyPolicy consistency = ConsistencyPolicy::Sequential();
  bool average_changes = false;                         // updates are weight changes, not gradients
  FloatFormat values = Training::Compression::FLOAT32;  // of updates
  OptimizerOptions optimizer;
  double l2 = 0;                                    // added to the gradient
  std::optional<EmbeddingTableOptions> embeddings;  // slot_floats follows from the optimizer
  size_t max_frame_bytes = kMaxFrameBytes;          // larger messages are split
  // A shard of which no copy is left goes on from the weights that workers have (Lose).
  bool weights_from_workers = false;
};

// A record of `gradients`, as it stands in the log.
struct GradientRecord {
  Offset offset = 0;
  std::string_view key;
  std::string_view value;
  int64_t timestamp_ms = 0;
};

// What processing a record leads to. Answers are made from state, so only their receivers are
// named; a worker named twice is answered twice.
struct ServerOutput {
  struct Replaced {
    WorkerId worker = 0;
    std::vector<EmbeddingId> wanted{};
    bool operator==(const Replaced&) const = default;
  };
  std::vector<WorkerId> answers;
  std::vector<Replaced> replaced_answers;  // want that of the clock before
  std::vector<DeadLetter> dead_letters;
  // The shard stands at the cut of this snapshot: see ServerProcessor::LeaveCut.
  std::optional<uint64_t> snapshot;

  void Clear() {
    snapshot.reset();
    answers.clear();
    replaced_answers.clear();
    dead_letters.clear();
  }
};

// State is a pure function of the records processed: no clock, no randomness, no thread, no
// unordered container. The rules, and what each is for, are those of ARCHITECTURE.md:
//  - an update of worker w is taken only if its clock equals the shard's clock of w; any other is
//    counted and answered, never dropped in silence (a zombie's answer may be the newest);
//  - sequential: updates are held and combined in worker order when the last has come, so that
//    arrival order changes nothing, to the byte;
//  - eventual and bounded: an update is applied when it comes; the answer may have to wait;
//  - an update with a NaN, an infinity or a value beyond 1e18 counts as an empty one of its clock;
//    so does a step whose result would not be finite, for all that are combined in it;
//  - a worker that left is in no minimum and no round;
//  - sequential, of several shards: a shard keeps what its last round replaced, and serves it to a
//    worker that other shards still hold at the clock before, so that the worker's update of that
//    clock is the same bytes again;
//  - a snapshot is one cut through all shards (SnapshotCut): a worker's updates behind it are held
//    until all workers have come to it or left;
//  - an answer has the embedding rows that its worker wants, which the shard remembers. A row is
//    one of its own with the time of the last step, so that the same answer said again is the same
//    bytes, whatever expires.
//  - a shard that has lost its state asks every worker what it has of it, takes nothing else
//    meanwhile, and goes on from the newest weights that one has when all have spoken.
class ServerProcessor {
 public:
  // Embedding rows are read from the store when they are not in memory; it outlives the processor.
  ServerProcessor(const ServerOptions& options, const OrderedByteMap* store);

  // Folds the record in: what cannot be used is a dead letter. Errors are the store's, and final.
  Status Process(const GradientRecord& record, ServerOutput& output);

  // Folds in what is held back at the cut. When Process has said that the shard stands at one,
  // this is the next call that changes state, after the state has been saved or not: the fold of
  // the log is the same.
  Status LeaveCut(ServerOutput& output);
  bool at_cut() const { return cut_.reached(); }
  // The snapshot that this shard has been told of and has not come to the cut of.
  std::optional<uint64_t> open_snapshot() const { return cut_.open(); }
  // The newest of those that were asked for (of shard 0) or begun, and will not be made.
  uint64_t snapshot_given_up() const { return snapshot_given_up_; }

  // The encoded Weights message for a worker, as of now. Errors: the store's.
  StatusOr<std::string> Answer(WorkerId worker) const;
  // The one of the clock before. REQUIRES: the last Process has named the worker for it.
  StatusOr<std::string> ReplacedAnswer(const ServerOutput::Replaced& receiver) const;

  const VectorClock& clocks() const { return clocks_; }
  // The consistency model lets the worker go on.
  bool Released(WorkerId worker) const { return options_.consistency.Released(clocks_, worker); }
  bool AllLeft() const { return clocks_.AllLeft(); }
  // Sequential rounds: workers whose update of the present round has not come, ascending; empty
  // when nobody's has. While lost: who has not said yet what it has.
  std::vector<WorkerId> WaitedFor() const;

  const ParameterShard& shard() const { return shard_; }
  ParameterShard& mutable_shard() { return shard_; }
  // The embedding rows as of now, ids.size() x width. Errors: the store's.
  Status ReadEmbeddings(std::span<const EmbeddingId> ids, std::span<float> values) const {
    return embeddings_->Read(ids, step_ms_, values);
  }
  // No answer is made, or made again, as of an earlier time of the log.
  int64_t oldest_step_ms() const { return KeepsPreviousRound() ? replaced_step_ms_ : step_ms_; }
  // Null when the job has none.
  EmbeddingTable* embeddings() const { return embeddings_.get(); }
  const Moments& moments() const { return moments_; }
  const EvaluationSums& progressive() const { return progressive_; }
  const EvaluationSums& tail() const { return tail_; }
  const ShardState::Counters& counters() const { return counters_; }
  uint64_t rows_trained() const { return rows_trained_; }
  uint64_t steps() const { return steps_; }
  double train_loss() const { return train_loss_; }
  // Rows of the worker below this number have been counted.
  RowNumber rows_end(WorkerId worker) const { return members_.at(worker).rows.end(); }
  uint32_t buffer_rows(WorkerId worker) const { return members_.at(worker).buffer_rows; }

  // From here on the state is what the workers say. Lost stay the optimizer's state, the embedding
  // rows, and what was counted once (rows, sums); the bytes of an undisturbed run are lost with
  // them. REQUIRES: nothing has been processed or loaded.
  void MarkStateLost() { state_lost_ = true; }
  bool state_lost() const { return state_lost_; }

  // All of the state but the parameters. `position` fields are the caller's.
  void SaveState(ShardState& state) const;
  // DataLoss when the state is of another epoch, shard or number of workers.
  Status LoadState(const ShardState& state);

 private:
  struct Member {
    std::optional<Gradient> pending;  // sequential: held for the unfinished round
    RowProgress rows;
    RowProgress rows_before;  // of the clock before
    uint32_t buffer_rows = 0;
    std::vector<EmbeddingId> wanted;  // of the next answer
    ChunkJoiner joiner;
    std::optional<Gradient> restore;  // while lost: what it has said that it has
  };

  // Both return the reason why the message cannot be used.
  StatusOr<std::optional<Gradient>> Decode(const GradientRecord& record);
  static StatusOr<std::optional<Gradient>> DecodeRequest(const GradientRecord& record);
  Status Check(const Gradient& message) const;

  Status CheckEmbeddingParts(const Gradient& message) const;

  Status Handle(Gradient message, const GradientRecord& record, ServerOutput& output);
  void HandleAsk(const Gradient& message, ServerOutput& output);
  void HandleWhileLost(Gradient message, ServerOutput& output);
  // Takes the newest weights that a worker has. REQUIRES: every worker has said what it has.
  bool TryRestore();
  Status HandleUpdate(Gradient message, ServerOutput& output);
  // Eventual and bounded: the update is applied at once.
  Status TakeUpdate(const Gradient& message, ServerOutput& output);

  void HandleSnapshot(const Gradient& message, ServerOutput& output);
  // Says so when the shard has come to the cut.
  void CheckCut(ServerOutput& output);
  void DropNonFiniteUpdate(Gradient& message, const GradientRecord& record, ServerOutput& output);
  void CountNonFiniteUpdate() {
    counters_.set_non_finite_updates(counters_.non_finite_updates() + 1);
  }
  Status TryFinishRound(ServerOutput& output);
  StatusOr<std::string> MakeAnswer(WorkerId worker, bool replaced,
                                   std::span<const EmbeddingId> wanted) const;
  Status ReadEmbeddings(std::span<const EmbeddingId> ids, bool replaced,
                        EmbeddingBlock& block) const;
  // Applies the updates of `messages` as one step, in their order.
  Status Apply(const std::vector<const Gradient*>& messages, size_t average_over);
  // Adds up their embedding rows, times `scale`, into row_ids_ and row_sum_.
  void SumEmbeddings(const std::vector<const Gradient*>& messages, float scale);
  Status StepEmbeddings();
  // Adds up what must be counted once.
  void Count(const Gradient& message, ServerOutput& output);
  void CountDeadLetters(const Gradient& message, ServerOutput& output);
  std::vector<WorkerId> ReleasedWorkers() const;
  void AnswerNewlyReleased(const std::vector<WorkerId>& before, ServerOutput& output) const;
  bool KeepsPreviousRound() const {
    return options_.shards > 1 && options_.consistency.sequential();
  }

  ServerOptions options_;
  ParameterParts parts_;  // of the shard's keys
  std::unique_ptr<Optimizer> optimizer_;
  ParameterShard shard_;
  VectorClock clocks_;
  std::map<WorkerId, Member> members_;
  Moments moments_;
  // KeepsPreviousRound: beside the weights that the last round replaced.
  Moments replaced_moments_;
  std::vector<EmbeddingId> replaced_ids_;  // ascending
  std::vector<float> replaced_rows_;
  int64_t replaced_step_ms_ = 0;
  std::unique_ptr<EmbeddingTable> embeddings_;
  uint64_t snapshot_given_up_ = 0;
  int64_t seen_ms_ = 0;  // newest time of an accepted message, by the log
  int64_t step_ms_ = 0;  // as it was at the last step
  EvaluationSums progressive_;
  EvaluationSums tail_;
  uint64_t rows_trained_ = 0;
  uint64_t steps_ = 0;
  double train_loss_ = 0;
  bool state_lost_ = false;
  ShardState::Counters counters_;
  SnapshotCut cut_;
  // Scratch of Apply.
  std::vector<float> sum_;
  std::vector<EmbeddingId> row_ids_;
  std::vector<float> row_sum_;
};

}  // namespace millrace
