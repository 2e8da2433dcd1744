// Processes workers' messages: the fold that makes a shard's state.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "messages/records.pb.h"
#include "models/drift_detector.h"
#include "models/evaluation.h"
#include "models/evaluation_window.h"
#include "models/moments.h"
#include "processors/group_sync.h"
#include "processors/lost_state.h"
#include "processors/previous_round.h"
#include "processors/row_history.h"
#include "processors/server_options.h"
#include "processors/shard_model.h"
#include "processors/shard_seal.h"
#include "processors/snapshot_cut.h"
#include "processors/vector_clock.h"
#include "stores/embedding_table.h"
#include "stores/ordered_byte_map.h"
#include "stores/parameter_shard.h"
#include "topics/gradient_codec.h"
#include "topics/message_bytes.h"

namespace millrace {

// A record of `gradients` in the log.
struct GradientRecord {
  Offset offset = 0;
  std::string_view key;
  std::string_view value;
  int64_t timestamp_ms = 0;
  float largest = kLargestValue;  // what a dense value may be; a sum of updates may have more
};

// Whether a shard adds the update, and not an empty one in its place: its values are finite, the
// dense ones of a model are at most `largest`, and its figures can be those of rows.
bool IsSane(const Gradient::Update& update, float largest = kLargestValue);
// Of what it says of named parameters, and of embedding rows: each number is at most kLargestValue.
bool HasSaneParts(const Gradient::Update& update);

// The results of processing a record. Answers are made from state, so only their receivers are
// listed; a worker may be listed twice.
struct ServerOutput {
  struct PreviousReceiver {
    WorkerId worker = 0;
    std::vector<EmbeddingId> wanted{};
    bool operator==(const PreviousReceiver&) const = default;
  };
  // The worker that is told again where it is, and the number of its message (Gradient.number).
  struct Reply {
    WorkerId worker = 0;
    uint64_t number = 0;
    bool operator==(const Reply&) const = default;
  };
  std::vector<WorkerId> answers;
  std::optional<Reply> reply;                      // to one of those
  std::vector<PreviousReceiver> previous_answers;  // to be answered at the previous clock
  std::vector<DeadLetter> dead_letters;
  // An exchange with the neighbor's group has begun (ServerProcessor::Delta).
  bool delta = false;
  // The groups whose deltas are to be answered (ServerProcessor::ValuesFor); one may stand twice.
  std::vector<uint32_t> values_for;
  // The shard is at the cut of this snapshot: see ServerProcessor::LeaveCut.
  std::optional<uint64_t> snapshot;

  void Clear() {
    snapshot.reset();
    answers.clear();
    reply.reset();
    previous_answers.clear();
    dead_letters.clear();
    delta = false;
    values_for.clear();
  }
};

// What an answer says besides the state.
struct AnswerOptions {
  // The values are left out: the shared record of this version has them.
  std::optional<uint64_t> shared{};
  uint64_t answers_to = 0;     // the number of the message that it replies to; 0: to none
  size_t requests = SIZE_MAX;  // it has the embedding rows of so many of the worker's last requests
};

// State is a pure function of the records processed: no clock, no randomness, no thread, no
// unordered container. The rules (ARCHITECTURE.md has the reasons):
//  - an update of worker w is accepted only if its clock equals the shard's clock of w, and, where
//    several may be in flight, its rows begin where the shard's last one ended; any other is
//    counted and answered, never dropped in silence (a zombie's answer may be the newest);
//  - sequential: updates are held and combined in worker order when the last has arrived, so that
//    the order of arrival does not change a byte;
//  - eventual and bounded: an update is applied when it arrives; the answer may have to wait;
//  - an update with a NaN, an infinity or a value beyond 1e18 counts as an empty one of its clock;
//    so do all updates of a step whose result would not be finite;
//  - named parameters (model EXTERNAL) get their first values by an update as well (`put`). So a
//    put is counted once, in worker order, and is in the same round in all shards;
//  - a worker that left counts in no minimum and no round;
//  - sequential, several shards: a shard keeps the state before its last round, and answers with it
//    a worker that is at the previous clock in other shards, so that the worker's update of that
//    clock has the same bytes again;
//  - a snapshot is one cut through all shards (SnapshotCut): a worker's updates after the cut are
//    held until all workers have reached it or left, or the shard is told to cut where it is;
//  - where snapshots are periodic (snapshot_every), shard 0 begins one with the record that makes
//    the last step of the period, or with the first one after it that allows a snapshot;
//  - the number of shards changes at such a cut (ShardSeal, server_reshard.cc): what is held then
//    is dropped, and nothing changes the shard any more. Asks are answered;
//  - where drifts are acted on, shard 0's moments count them, and workers' updates carry the count
//    to all shards; each forgets after the step by the first update that has a higher one. In a
//    sequential job that is the same round in all shards;
//  - the number of workers changes (Gradient.Resize to shard 0) at one clock in all shards of a
//    sequential job: shard 0's moments announce it from the end of a round on, so all updates of
//    the next round tell each shard of it. In others shard 0 lets a worker in at once, and the
//    worker's messages tell the other shards (server_resize.cc);
//  - a message of a worker that has joined says at which clock; one of its life before is not due;
//  - an answer has the embedding rows that its worker requested, which the shard remembers for as
//    many updates as may be in flight. Whether
//    a row has expired is decided by the time of the last step, so that a repeated answer has the
//    same bytes;
//  - of several groups of servers each has workers of its own, and counts the others as workers
//  that
//    have left. What groups exchange is folded where it stands in the log (GroupSync);
//  - a shard that has lost its state asks every worker for its weights, accepts nothing else until
//    all have reported, and continues from the newest of them; a later report may still move a
//    worker on.
class ServerProcessor {
 public:
  // Embedding rows are read from the store when they are not in memory; it outlives the processor.
  ServerProcessor(const ServerOptions& options, const OrderedByteMap* store);

  // Folds the record in; an unusable record becomes a dead letter. Errors are the store's, and
  // final.
  Status Process(const GradientRecord& record, ServerOutput& output);

  // Folds in the updates that are held at the cut. REQUIRES at_cut(). After Process has reported a
  // cut, this must be the next call that changes state. Whether the state was saved before makes no
  // difference to the fold.
  Status LeaveCut(ServerOutput& output);
  bool at_cut() const { return cut_.reached(); }
  // The snapshot that this shard knows and whose cut it has not reached; or, of shard 0, that was
  // requested before all workers had passed the last cut, and waits for CutHere.
  std::optional<uint64_t> open_snapshot() const {
    if (snapshot_waiting_ > cut_.newest()) return snapshot_waiting_;
    return cut_.open();
  }
  // The newest snapshot that has begun, and in shard 0 the number of its request.
  uint64_t newest_snapshot() const { return cut_.begun(); }
  uint64_t snapshot_request() const { return snapshot_request_; }
  // The newest snapshot that was requested (shard 0) or begun, and is cancelled.
  uint64_t snapshot_given_up() const { return snapshot_given_up_; }
  // The cut at which the job goes over to another number of shards.
  const ShardSeal& seal() const { return seal_; }

  // The encoded Weights message for a worker, as of now, with a view of the shard's values: it is
  // to be used before the state changes. Errors: the store's, and ResourceExhausted when it is
  // larger than a message can be.
  StatusOr<MessageBytes> Answer(WorkerId worker, const AnswerOptions& options = {}) const;
  // The encoded SharedWeights message, as of now: the values, and the answers to these workers that
  // have nothing else to say. `version` is different for different values. REQUIRES: ascending,
  // distinct workers; not state_lost(). ResourceExhausted as above.
  StatusOr<MessageBytes> SharedAnswer(uint64_t version, std::span<const WorkerId> workers) const;
  // Whether the answer to the worker needs a record of its own beside the shared one: it has
  // embedding rows.
  bool NeedsOwnAnswer(WorkerId worker) const;
  // The answer at the previous clock. REQUIRES: the last Process has listed the worker for it.
  StatusOr<MessageBytes> PreviousAnswer(const ServerOutput::PreviousReceiver& receiver) const;

  // The encoded message to the neighbor's shard, of the exchange that is under way. REQUIRES
  // sync().open(). ResourceExhausted when it is larger than a message can be.
  StatusOr<std::string> Delta() const;
  // The encoded answer to the group's newest delta, as of now. REQUIRES: one was taken.
  // ResourceExhausted as above.
  StatusOr<std::string> ValuesFor(const GroupPeer& group) const;
  const GroupSync& sync() const { return sync_; }

  const VectorClock& clocks() const { return clocks_; }
  // Whether the consistency model lets the worker continue.
  bool Released(WorkerId worker) const { return options_.consistency.Released(clocks_, worker); }
  bool AllLeft() const { return clocks_.AllLeft(); }
  // Whether nothing will change any more: all workers have left, and all has been exchanged.
  bool ended() const { return sync_.ended(AllLeft()); }
  // The last change of the number of workers that was carried out; 0: none. (Of shard 0, or of a
  // sequential job.)
  uint64_t resize() const { return size_.number; }
  // The clock at which the worker has joined the running job; 0: it was there at the beginning.
  Clock joined(WorkerId worker) const { return members_.at(worker).joined; }
  // Whether it is there, or was.
  bool has_been_there(WorkerId worker) const {
    return options_.IsMember(worker) &&
           (worker < options_.workers_at_first() || joined(worker) > 0);
  }
  // Sequential rounds: workers whose update of the present round has not come, ascending; empty
  // when no update has. While the state is lost: workers that have not reported their weights.
  std::vector<WorkerId> WaitedFor() const;

  const ParameterShard& shard() const { return model_.shard(); }
  ParameterShard& mutable_shard() { return model_.mutable_shard(); }
  // The embedding rows as of now, ids.size() x width. Errors: the store's.
  Status ReadEmbeddings(std::span<const EmbeddingId> ids, std::span<float> values) const {
    return embeddings()->Read(ids, row_time(), values);
  }
  // No answer will be made as of an earlier time of the log.
  int64_t oldest_step_ms() const {
    return options_.keeps_previous_round() ? previous_.step_ms() : step_ms_;
  }
  // As of when embedding rows are read now.
  RowTime row_time() const { return {step_ms_, model_.shrinkage()}; }
  // Null when the job has none.
  EmbeddingTable* embeddings() const { return model_.embeddings(); }
  const Moments& moments() const { return moments_; }
  const EvaluationSums& progressive() const { return progressive_; }
  const EvaluationSums& tail() const { return tail_; }
  // Of the progressive sums.
  const EvaluationWindow& window() const { return window_; }
  const DriftDetector& drift() const { return drift_; }
  const ShardState::Counters& counters() const { return counters_; }
  uint64_t rows_trained() const { return rows_trained_; }
  uint64_t steps() const { return model_.steps(); }
  // Counts what has changed the parameters since this object was made, or before that: equal
  // numbers, equal parameters.
  uint64_t changes() const { return model_.steps() + sync_.changes(); }
  double train_loss() const { return train_loss_; }
  const ServerOptions& options() const { return options_; }
  // Rows of the worker below this number have been counted.
  RowNumber rows_end(WorkerId worker) const { return RowNumber(rows(worker).now().end()); }
  // The same of the clocks before, too.
  const RowHistory& rows(WorkerId worker) const { return members_.at(worker).rows; }
  uint32_t buffer_rows(WorkerId worker) const { return members_.at(worker).buffer_rows; }

  // From here on the state is restored from the workers' reports (LostState). REQUIRES: nothing has
  // been processed or loaded.
  void MarkStateLost();
  bool state_lost() const { return lost_.has_value(); }

  // All of the state but the parameters. `position` fields are the caller's.
  void SaveState(ShardState& state) const;
  // DataLoss when the state is of another epoch, shard or number of workers, or is not one that
  // SaveState can have made; the processor must not be used then.
  Status LoadState(const ShardState& state);

 private:
  struct Member {
    // Its updates of the present clock and the ones after it, held: for the unfinished round (one),
    // or after the cut (as many as may be in flight).
    std::deque<Gradient::Update> held;
    RowHistory rows;
    uint32_t buffer_rows = 0;
    Clock joined = 0;
    // The embedding rows of its last requests, as many as may be in flight; oldest first.
    std::deque<std::vector<EmbeddingId>> wanted;
  };

  // So many workers, 0 .. workers - 1, by the change of this number.
  struct Size {
    uint64_t number = 0;
    uint32_t workers = 0;
  };

  Status Handle(Gradient message, const GradientRecord& record, ServerOutput& output);
  // Answers the message's worker, which may know something else.
  static void Reply(const Gradient& message, ServerOutput& output);
  void HandleAsk(const Gradient& message, ServerOutput& output);
  void HandleDelta(const Gradient& message, const GradientRecord& record, ServerOutput& output);
  void HandleNeighborValues(const Gradient::NeighborValues& values);
  // Begins an exchange with the neighbor if one is due.
  void TryExchange(ServerOutput& output);
  void HandleRequest(const Gradient& message, ServerOutput& output);
  // Of periodic snapshots. REQUIRES !at_cut().
  void BeginIfPeriodIsOver();
  void HandleWhileLost(Gradient message, ServerOutput& output);
  void GoOnFrom(const LostState::Restored& restored);
  // Takes over a clock that a worker knows and that nobody knew when the shard was restored: an
  // older instance of the worker may have reported in its place. Without it the worker would wait
  // for its clock for ever.
  Status HandleLateReport(const Gradient& message, ServerOutput& output);
  // Whether an update or leave is the one that comes next. If not, its worker is answered with the
  // present clock.
  bool IsDue(const Gradient& message, ServerOutput& output);
  bool IsNext(const Gradient& message) const;
  void KeepWanted(Member& member, const google::protobuf::RepeatedField<uint64_t>& ids) const;
  // Advances the log's time to that of an accepted message.
  void AdvanceTime(int64_t timestamp_ms);
  Status HandleLeave(const Gradient& message, ServerOutput& output);
  Status HandleUpdate(WorkerId worker, Gradient::Update update, ServerOutput& output);
  // Eventual and bounded: the update is applied at once.
  Status TakeUpdate(WorkerId worker, const Gradient::Update& update, ServerOutput& output);
  // A non-finite update becomes a dead letter, and counts as an empty update of its clock.
  void DropNonFiniteUpdate(Gradient::Update& update, const GradientRecord& record,
                           ServerOutput& output);
  void CountNonFiniteUpdate() {
    counters_.set_non_finite_updates(counters_.non_finite_updates() + 1);
  }
  void Hold(Member& member, Gradient::Update update);
  // The oldest that is held. REQUIRES: one is.
  Gradient::Update TakeHeld(Member& member);
  Status TryFinishRound(ServerOutput& output);
  Status Step(Updates updates, size_t average_over);
  // Adds the update's counts, and advances the worker's clock.
  void Accept(WorkerId worker, const Gradient::Update& update, ServerOutput& output);
  void CountOnce(const Gradient::Update& update, Clock clock);
  // Forgets if the updates are the first to tell of a drift. To be called after their step.
  void ForgetIfTold(Updates updates);
  void CountDeadLetters(const google::protobuf::RepeatedPtrField<DeadLetter>& letters,
                        ServerOutput& output);
  // Answers the workers that a higher minimum clock releases. `before`: the minimum before.
  void AnswerNewlyReleased(std::optional<Clock> before, WorkerId but, ServerOutput& output) const;
  void HandleResize(const Gradient::Resize& order, ServerOutput& output);
  // Carries out what was ordered, or announces it where rounds tell the other shards, as soon as no
  // snapshot is in the way.
  void TryResize(ServerOutput& output);
  bool SnapshotAllowsResize() const;
  bool ResizeAllowsSnapshot() const;
  // `workers` counts only if there is a number.
  Size SizeOf(uint64_t number, uint32_t workers) const {
    return {.number = number, .workers = number > 0 ? workers : options_.workers_at_first()};
  }
  // What the updates of a round tell of.
  Size ToldBy(Updates updates) const;
  // At the end of a round.
  void Announce();
  // Lets in those that the size before did not have. Those that it has no more leave by themselves.
  void Resize(const Size& size, ServerOutput& output);
  void Join(WorkerId worker, Clock clock, ServerOutput& output);
  // By a message: the worker has joined, and this shard has not been told in another way.
  void JoinIfTold(WorkerId worker, uint64_t clock, ServerOutput& output);
  void HandleReshard(const Gradient::Reshard& order, ServerOutput& output);
  void HandleWhileSealed(const Gradient& message, ServerOutput& output);
  // Seals the shard when it has come to the cut.
  void CheckSeal();
  void NoteMark(WorkerId worker, const SnapshotMark& mark);
  // Reports it when the shard has reached the cut.
  void CheckCut(ServerOutput& output);

  StatusOr<MessageBytes> MakeAnswer(WorkerId worker, bool previous_round,
                                    std::span<const EmbeddingId> wanted,
                                    const AnswerOptions& options) const;
  // Weights.min_clock.
  Clock MinClockToTell() const;
  // The parameters that have values; with a clock, as they were at it. AnyWeights is Weights or
  // SharedWeights.
  template <typename AnyWeights>
  void FillParameters(std::optional<Clock> at, AnyWeights& message) const;
  // The bytes of an answer that has these values (ShardParameters::AsRead).
  template <typename AnyWeights>
  StatusOr<MessageBytes> WithValues(const AnyWeights& message, std::span<const float> values) const;
  // The worker's own part of its answer; AnyAnswer is Weights or SharedWeights::Answer.
  template <typename AnyAnswer>
  void FillAnswer(WorkerId worker, bool previous_round, AnyAnswer& answer) const;
  Status ReadEmbeddings(std::span<const EmbeddingId> ids, bool previous_round,
                        EmbeddingBlock& block) const;

  void SaveMembers(ShardState& state) const;
  // All return the reason why SaveState cannot have made the state.
  Status CheckState(const ShardState& state) const;
  Status CheckMember(const ShardState::Member& member) const;
  Status LoadMembers(const ShardState& state);
  Status LoadParts(const ShardState& state);
  // Checks the invariants between two records.
  void CheckInvariants() const;

  ServerOptions options_;
  GradientDecoder decoder_;
  ShardModel model_;
  VectorClock clocks_;
  std::map<WorkerId, Member> members_;
  size_t held_ = 0;  // so many of them have an update that is held
  PreviousRound previous_;
  std::optional<LostState> lost_;
  bool is_restored_ = false;  // the state was lost once
  GroupSync sync_;
  SnapshotCut cut_;
  ShardSeal seal_;
  uint64_t snapshot_request_ = 0;
  uint64_t snapshot_steps_ = 0;  // steps() when a periodic one was last begun
  uint64_t snapshot_given_up_ = 0;
  uint64_t snapshot_waiting_ = 0;  // not saved: whoever asked asks again
  int64_t seen_ms_ = 0;            // newest time of an accepted message, by the log
  int64_t step_ms_ = 0;            // seen_ms_ at the last step
  Size size_;                      // that was carried out
  Size ordered_;  // the newest one; of shard 0. (What is announced is in moments_.)
  Moments moments_;
  EvaluationSums progressive_;
  EvaluationSums tail_;
  EvaluationWindow window_;
  DriftDetector drift_;
  uint64_t forgotten_ = 0;  // drifts that were acted upon
  uint64_t rows_trained_ = 0;
  double train_loss_ = 0;
  ShardState::Counters counters_;
};

// DataLoss when a saved state is that of another job, or of a shard of another shape.
Status CheckStateFits(const ShardState& state, const ServerOptions& options);
// Whether ServerProcessor::ended() of a saved state.
bool HasEnded(const ShardState& state);
// InvalidArgument, with the reason, when it is of no time or place that a shard comes to. For who
// shows a saved state and does not load it.
Status CheckStateTimes(const ShardState& state);

}  // namespace millrace
