// What a shard does with a worker's message: the fold that is the server.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "messages/records.pb.h"
#include "models/evaluation.h"
#include "models/moments.h"
#include "processors/lost_state.h"
#include "processors/previous_round.h"
#include "processors/server_options.h"
#include "processors/shard_model.h"
#include "processors/snapshot_cut.h"
#include "processors/vector_clock.h"
#include "stores/embedding_table.h"
#include "stores/ordered_byte_map.h"
#include "stores/parameter_shard.h"
#include "topics/gradient_codec.h"

namespace millrace {

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
  // The newest snapshot that has begun, and of shard 0 the number of the request that led to it.
  uint64_t newest_snapshot() const { return cut_.newest(); }
  uint64_t snapshot_request() const { return snapshot_request_; }
  // The newest of those that were asked for (of shard 0) or begun, and will not be made.
  uint64_t snapshot_given_up() const { return snapshot_given_up_; }

  // The encoded Weights message for a worker, as of now. Errors: the store's, and ResourceExhausted
  // when it is larger than a message can be.
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

  const ParameterShard& shard() const { return model_.shard(); }
  ParameterShard& mutable_shard() { return model_.mutable_shard(); }
  // The embedding rows as of now, ids.size() x width. Errors: the store's.
  Status ReadEmbeddings(std::span<const EmbeddingId> ids, std::span<float> values) const {
    return embeddings()->Read(ids, step_ms_, values);
  }
  // No answer is made, or made again, as of an earlier time of the log.
  int64_t oldest_step_ms() const {
    return options_.keeps_previous_round() ? previous_.step_ms() : step_ms_;
  }
  // Null when the job has none.
  EmbeddingTable* embeddings() const { return model_.embeddings(); }
  const Moments& moments() const { return moments_; }
  const EvaluationSums& progressive() const { return progressive_; }
  const EvaluationSums& tail() const { return tail_; }
  const ShardState::Counters& counters() const { return counters_; }
  uint64_t rows_trained() const { return rows_trained_; }
  uint64_t steps() const { return model_.steps(); }
  double train_loss() const { return train_loss_; }
  // Rows of the worker below this number have been counted.
  RowNumber rows_end(WorkerId worker) const { return RowNumber(members_.at(worker).rows.end()); }
  uint32_t buffer_rows(WorkerId worker) const { return members_.at(worker).buffer_rows; }

  // From here on the state is what the workers say (LostState). REQUIRES: nothing has been
  // processed or loaded.
  void MarkStateLost();
  bool state_lost() const { return lost_.has_value(); }

  // All of the state but the parameters. `position` fields are the caller's.
  void SaveState(ShardState& state) const;
  // DataLoss when the state is of another epoch, shard or number of workers, or none that SaveState
  // can have made; the processor is of no use then.
  Status LoadState(const ShardState& state);

 private:
  struct Member {
    std::optional<Gradient::Update> pending;  // of its present clock: held for the unfinished round
    RowProgress rows;
    uint32_t buffer_rows = 0;
    std::vector<EmbeddingId> wanted;  // of the next answer
  };

  Status Handle(Gradient message, const GradientRecord& record, ServerOutput& output);
  void HandleAsk(const Gradient& message, ServerOutput& output);
  void HandleRequest(const Gradient& message, ServerOutput& output);
  void HandleWhileLost(Gradient message, ServerOutput& output);
  void GoOnFrom(const LostState::Restored& restored);
  // Of an update or leave: whether it is the one that is due. If not, its worker is told where it
  // stands.
  bool IsDue(const Gradient& message, ServerOutput& output);
  // The log's time goes on to that of a message that is taken.
  void AdvanceTime(int64_t timestamp_ms);
  Status HandleLeave(const Gradient& message, ServerOutput& output);
  Status HandleUpdate(WorkerId worker, Gradient::Update update, ServerOutput& output);
  // Eventual and bounded: the update is applied at once.
  Status TakeUpdate(WorkerId worker, const Gradient::Update& update, ServerOutput& output);
  // What is not finite is a dead letter, and becomes an empty update of its clock.
  void DropNonFiniteUpdate(Gradient::Update& update, const GradientRecord& record,
                           ServerOutput& output);
  void CountNonFiniteUpdate() {
    counters_.set_non_finite_updates(counters_.non_finite_updates() + 1);
  }
  Status TryFinishRound(ServerOutput& output);
  Status Step(Updates updates, size_t average_over);
  // Adds up what must be counted once, and advances the worker's clock.
  void Accept(WorkerId worker, const Gradient::Update& update, ServerOutput& output);
  void CountOnce(const Gradient::Update& update);
  void CountDeadLetters(const google::protobuf::RepeatedPtrField<DeadLetter>& letters,
                        ServerOutput& output);
  // Answers those whom a higher minimum releases. `before`: the minimum that was.
  void AnswerNewlyReleased(std::optional<Clock> before, WorkerId but, ServerOutput& output) const;
  void NoteMark(WorkerId worker, const SnapshotMark& mark);
  // Says so when the shard has come to the cut.
  void CheckCut(ServerOutput& output);

  StatusOr<std::string> MakeAnswer(WorkerId worker, bool replaced,
                                   std::span<const EmbeddingId> wanted) const;
  Status ReadEmbeddings(std::span<const EmbeddingId> ids, bool replaced,
                        EmbeddingBlock& block) const;

  void SaveMembers(ShardState& state) const;
  // All return the reason why SaveState has not made the state.
  Status CheckState(const ShardState& state) const;
  Status CheckMember(const ShardState::Member& member) const;
  Status LoadMembers(const ShardState& state);
  Status LoadParts(const ShardState& state);
  // What is true between any two records. Aborts when it is not.
  void CheckInvariants() const;

  ServerOptions options_;
  GradientDecoder decoder_;
  ShardModel model_;
  VectorClock clocks_;
  std::map<WorkerId, Member> members_;
  PreviousRound previous_;
  std::optional<LostState> lost_;
  SnapshotCut cut_;
  uint64_t snapshot_request_ = 0;
  uint64_t snapshot_given_up_ = 0;
  int64_t seen_ms_ = 0;  // newest time of an accepted message, by the log
  int64_t step_ms_ = 0;  // as it was at the last step
  Moments moments_;
  EvaluationSums progressive_;
  EvaluationSums tail_;
  uint64_t rows_trained_ = 0;
  double train_loss_ = 0;
  ShardState::Counters counters_;
};

}  // namespace millrace
