#include "processors/server_processor.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "topics/dead_letter.h"
#include "topics/figures_codec.h"
#include "topics/parameter_layout.h"
#include "topics/slice_codec.h"

namespace millrace {
namespace {

// Between two messages that are taken. A stream may pause for so long, too: it is counted, no more.
constexpr int64_t kTimeJumpMs = int64_t{6} * 60 * 60 * 1000;

DeadLetter LetterOf(const GradientRecord& record, const ServerOptions& options,
                    std::string reason) {
  return MakeDeadLetter({.topic = "gradients",
                         .partition = static_cast<int32_t>(options.number()),
                         .offset = record.offset,
                         .key = record.key,
                         .value = record.value},
                        std::move(reason), options.dead_letter_reasons_only);
}

}  // namespace

bool HasSaneParts(const Gradient::Update& update) {
  const auto are_sane = [](const auto& parts) {
    return std::ranges::all_of(
        parts, [](const ParameterPart& part) { return AllWithin(Values(part), kLargestValue); });
  };
  return are_sane(update.put()) && are_sane(update.part()) &&
         AllWithin(update.embeddings(), kLargestValue);
}

// Moments that no rows can have given are poison too: merged, they divide by zero.
bool IsSane(const Gradient::Update& update, float largest) {
  return AllWithin(update.slice(), largest) && HasSaneParts(update) &&
         std::isfinite(update.weight_sum()) && update.weight_sum() >= 0 &&
         AreFinite(update.progressive()) && AreFinite(update.tail()) &&
         std::isfinite(update.train_loss()) && FromProto(update.moments()).IsValid();
}

ServerProcessor::ServerProcessor(const ServerOptions& options, const OrderedByteMap* store)
    : options_(options),
      decoder_(GradientShapeFrom(options), options.chunks),
      model_(options, store),
      clocks_(options.workers),
      previous_(options.numeric_columns),
      sync_(options),
      cut_(options.workers, options.pipeline),
      seal_(options.pipeline),
      size_(SizeOf(0, 0)),
      ordered_(size_),
      moments_(options.numeric_columns),
      window_(options.fewest_window_rows),
      drift_(options.drift_pace) {
  MILLRACE_CHECK(options.workers >= 1 && options.shard < options.shards);
  MILLRACE_CHECK(options.pipeline >= 1 &&
                 (options.pipeline == 1 || !options.consistency.sequential()));
  for (WorkerId worker = 0; worker < options.workers; ++worker) {
    members_[worker].rows = RowHistory(options.pipeline);
    const bool is_there = worker < options.workers_at_first() && options.IsMember(worker);
    if (!is_there) clocks_.Set(worker, {.clock = 0, .left = true});
  }
  sync_.Begin(model_.mutable_shard());
}

Status ServerProcessor::Process(const GradientRecord& record, ServerOutput& output) {
  MILLRACE_CHECK(!at_cut());
  StatusOr<std::optional<Gradient>> message = decoder_.Decode(record.key, record.value);
  if (!message.ok()) {
    counters_.set_refused(counters_.refused() + 1);
    output.dead_letters.push_back(
        LetterOf(record, options_, std::string(message.status().message())));
    return absl::OkStatus();
  }
  if (!message->has_value()) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(Handle(*std::move(*message), record, output));
  if (!options_.consistency.sequential()) TryResize(output);
  TryExchange(output);
  if (!at_cut()) BeginIfPeriodIsOver();
  CheckInvariants();
  return absl::OkStatus();
}

Status ServerProcessor::Handle(Gradient message, const GradientRecord& record,
                               ServerOutput& output) {
  const Gradient::KindCase kind = message.kind_case();
  if (seal_.is_sealed()) {
    HandleWhileSealed(message, output);
    return absl::OkStatus();
  }
  if (kind == Gradient::kReshard) {
    HandleReshard(message.reshard(), output);
    return absl::OkStatus();
  }
  if (kind == Gradient::kRequestSnapshot || kind == Gradient::kCancelSnapshot ||
      kind == Gradient::kCutHere) {
    HandleRequest(message, output);
    return absl::OkStatus();
  }
  if (kind == Gradient::kResize) {
    HandleResize(message.resize(), output);
    return absl::OkStatus();
  }
  if (kind == Gradient::kDelta) {
    HandleDelta(message, record, output);
    return absl::OkStatus();
  }
  if (kind == Gradient::kNeighborValues) {
    HandleNeighborValues(message.neighbor_values());
    return absl::OkStatus();
  }
  const WorkerId worker(message.worker());
  JoinIfTold(worker, message.joined(), output);
  if (lost_) {
    HandleWhileLost(std::move(message), output);
    return absl::OkStatus();
  }
  if (kind == Gradient::kRestore) return HandleLateReport(message, output);
  if (kind == Gradient::kAsk) {
    HandleAsk(message, output);
    return absl::OkStatus();
  }
  if (!IsDue(message, output)) return absl::OkStatus();
  // (A leave is not held: the worker says it again, to the shards that come.)
  if (kind == Gradient::kLeave && seal_.HasReached(worker, clocks_.clock(worker))) {
    return absl::OkStatus();
  }
  AdvanceTime(record.timestamp_ms);
  if (kind == Gradient::kLeave) return HandleLeave(message, output);
  DropNonFiniteUpdate(*message.mutable_update(), record, output);
  return HandleUpdate(worker, std::move(*message.mutable_update()), output);
}

void ServerProcessor::Reply(const Gradient& message, ServerOutput& output) {
  const WorkerId worker(message.worker());
  output.answers.push_back(worker);
  output.reply = {worker, message.number()};
}

void ServerProcessor::HandleAsk(const Gradient& message, ServerOutput& output) {
  const WorkerId worker(message.worker());
  const auto& wanted = message.ask().wanted();
  const bool previous_round = options_.keeps_previous_round() && message.has_clock() &&
                              !clocks_.left(worker) && message.clock() + 1 == clocks_.clock(worker);
  if (previous_round) {
    output.previous_answers.push_back({worker, {wanted.begin(), wanted.end()}});
    return;
  }
  // What a zombie wanted at another clock is of no use. (What is in flight may have moved the
  // clock.)
  const Clock clock = clocks_.clock(worker);
  const bool present = !message.has_clock() ||
                       (message.clock() <= clock && message.clock() + options_.pipeline > clock);
  if (present && !wanted.empty()) KeepWanted(members_.at(worker), wanted);
  Reply(message, output);
}

void ServerProcessor::KeepWanted(Member& member,
                                 const google::protobuf::RepeatedField<uint64_t>& ids) const {
  member.wanted.emplace_back(ids.begin(), ids.end());
  if (member.wanted.size() > options_.pipeline) member.wanted.pop_front();
}

void ServerProcessor::MarkStateLost() {
  MILLRACE_CHECK(steps() == 0 && counters_.gradients_accepted() == 0);
  lost_.emplace(options_.workers, options_.pipeline);
}

void ServerProcessor::HandleWhileLost(Gradient message, ServerOutput& output) {
  if (!message.has_restore()) {
    output.answers.push_back(WorkerId(message.worker()));  // which asks it
    return;
  }
  lost_->Take(std::move(message));
  const std::optional<LostState::Restored> restored =
      lost_->Restore(options_.consistency.sequential());
  if (!restored) return;
  GoOnFrom(*restored);
  lost_.reset();
  is_restored_ = true;
  for (const auto& [worker, member] : members_) output.answers.push_back(worker);
}

void ServerProcessor::GoOnFrom(const LostState::Restored& restored) {
  model_.SetWeights(restored.slice);
  model_.set_steps(restored.clock);
  snapshot_steps_ = restored.clock;
  moments_.Merge(FromProto(restored.moments));
  if (options_.keeps_previous_round()) {
    mutable_shard().KeepPreviousRound();
    previous_.Begin(moments_, row_time());
  }
  for (const auto& [worker, member] : restored.members) {
    clocks_.Set(worker, member.entry);
    members_.at(worker).rows = member.rows;
  }
}

// (Of a shard that was never lost no worker can know more: such a report was made up.)
Status ServerProcessor::HandleLateReport(const Gradient& message, ServerOutput& output) {
  const WorkerId worker(message.worker());
  const Gradient::Restore& restore = message.restore();
  const bool leaves = message.has_clock() && restore.left();
  const Clock known =
      std::max({Clock(message.clock()), Clock(restore.least_clock()), clocks_.clock(worker)});
  // Rows that are gone have been counted, whatever the clock.
  const bool is_news =
      !clocks_.left(worker) && (leaves || known > clocks_.clock(worker) ||
                                restore.committed_row() > members_.at(worker).rows.now().end());
  if (!is_restored_ || !is_news) {
    output.answers.push_back(worker);
    return absl::OkStatus();
  }
  for (auto& [other, member] : members_) {
    // The rounds of who has not left are everybody's.
    const bool moves = other == worker || (options_.consistency.sequential() && !leaves);
    if (!moves || clocks_.left(other)) continue;
    const Clock clock = std::max(known, clocks_.clock(other));
    // Of those that are held, some were in rounds that are over.
    for (Clock at = clocks_.clock(other); at < clock && !member.held.empty(); ++at) {
      const Gradient::Update held = TakeHeld(member);
      member.rows.Count(held.rows_end(), held.repeated_end());
    }
    while (!member.held.empty() && (leaves || clock > clocks_.clock(other))) TakeHeld(member);
    clocks_.Set(other, {clock, leaves});
  }
  RowHistory& rows = members_.at(worker).rows;
  if (restore.rows().end() > rows.now().end()) rows = RowHistory::Of(restore, options_.pipeline);
  rows.RaiseTo(restore.committed_row());
  if (leaves) decoder_.Forget(worker);
  if (options_.consistency.sequential()) MILLRACE_RETURN_IF_ERROR(TryFinishRound(output));
  output.answers.clear();
  for (const auto& [other, member] : members_) output.answers.push_back(other);
  CheckCut(output);
  return absl::OkStatus();
}

bool ServerProcessor::IsDue(const Gradient& message, ServerOutput& output) {
  if (IsNext(message)) return true;
  if (message.has_update()) counters_.set_duplicates_ignored(counters_.duplicates_ignored() + 1);
  const WorkerId worker(message.worker());
  const Clock clock = clocks_.clock(worker);
  // A repeat of what is held: the answer comes when the round is complete, or after the cut.
  const bool is_held = !clocks_.left(worker) && message.clock() >= clock &&
                       message.joined() == members_.at(worker).joined &&
                       Clock(message.clock()) - clock < members_.at(worker).held.size();
  if (!is_held) Reply(message, output);
  return false;
}

bool ServerProcessor::IsNext(const Gradient& message) const {
  const WorkerId worker(message.worker());
  const Member& member = members_.at(worker);
  const size_t held = member.held.size();
  if (clocks_.left(worker) || message.clock() != clocks_.clock(worker) + held) return false;
  if (message.joined() != member.joined) return false;  // of its life before, which has ended
  if (message.has_leave() || options_.pipeline == 1) return held == 0;
  if (held == options_.pipeline) return false;
  // It may have been made after an update of another instance of the worker, whose rows were
  // others.
  const uint64_t begin = held > 0 ? member.held.back().rows_end() : member.rows.now().end();
  return options_.shard != 0 || message.update().rows_begin() == begin;
}

void ServerProcessor::AdvanceTime(int64_t timestamp_ms) {
  const int64_t now_ms = std::max<int64_t>(timestamp_ms, 0);
  if (seen_ms_ > 0 && std::abs(now_ms - seen_ms_) > kTimeJumpMs) {
    counters_.set_time_jumps(counters_.time_jumps() + 1);
  }
  seen_ms_ = std::max(seen_ms_, now_ms);
}

Status ServerProcessor::HandleLeave(const Gradient& message, ServerOutput& output) {
  const WorkerId worker(message.worker());
  NoteMark(worker, message.leave().mark());
  for (const Gradient::Joined& joined : message.leave().joined()) {
    if (joined.worker() != worker) JoinIfTold(WorkerId(joined.worker()), joined.clock(), output);
  }
  // (Who joins may be behind all others: this shard may be updates ahead of shard 0.)
  const std::optional<Clock> min = clocks_.Min();
  clocks_.Leave(worker);
  decoder_.Forget(worker);
  CountDeadLetters(message.leave().dead_letters(), output);
  output.answers.push_back(worker);
  if (options_.consistency.sequential()) {
    MILLRACE_RETURN_IF_ERROR(TryFinishRound(output));
  } else {
    AnswerNewlyReleased(min, worker, output);
  }
  CheckCut(output);
  return absl::OkStatus();
}

void ServerProcessor::DropNonFiniteUpdate(Gradient::Update& update, const GradientRecord& record,
                                          ServerOutput& output) {
  if (IsSane(update, record.largest)) return;
  CountNonFiniteUpdate();
  output.dead_letters.push_back(LetterOf(
      record, options_,
      "an update with a NaN, an infinity or a value beyond 1e18; it counts as an empty one"));
  Gradient::Update empty;
  empty.set_rows_end(update.rows_end());
  empty.set_repeated_end(update.repeated_end());
  empty.set_buffer_rows(update.buffer_rows());
  empty.set_drifts(update.drifts());
  empty.set_resize(update.resize());
  empty.set_workers(update.workers());
  if (update.has_mark()) *empty.mutable_mark() = update.mark();
  empty.mutable_dead_letters()->Swap(update.mutable_dead_letters());
  empty.mutable_wanted()->Swap(update.mutable_wanted());
  update = std::move(empty);
}

Status ServerProcessor::HandleUpdate(WorkerId worker, Gradient::Update update,
                                     ServerOutput& output) {
  Member& member = members_.at(worker);
  MILLRACE_CHECK(!clocks_.left(worker) && member.held.size() < options_.pipeline);
  counters_.set_gradients_accepted(counters_.gradients_accepted() + 1);
  if (options_.consistency.sequential()) {
    NoteMark(worker, update.mark());
    Hold(member, std::move(update));
    MILLRACE_RETURN_IF_ERROR(TryFinishRound(output));
  } else if (cut_.HasReached(worker, clocks_.clock(worker)) ||
             seal_.HasReached(worker, clocks_.clock(worker)) || !member.held.empty()) {
    // (Those that are held may be behind the cut of an older snapshot, which a newer one replaced.
    // The cut of that may have been reached by those that were held.)
    Hold(member, std::move(update));
  } else {
    MILLRACE_RETURN_IF_ERROR(TakeUpdate(worker, update, output));
  }
  CheckCut(output);
  return absl::OkStatus();
}

Status ServerProcessor::TakeUpdate(WorkerId worker, const Gradient::Update& update,
                                   ServerOutput& output) {
  MILLRACE_CHECK(!options_.consistency.sequential());
  NoteMark(worker, update.mark());
  const std::optional<Clock> min = clocks_.Min();
  step_ms_ = seen_ms_;
  const Gradient::Update* const alone = &update;
  MILLRACE_RETURN_IF_ERROR(Step({&alone, 1}, clocks_.present()));
  ForgetIfTold({&alone, 1});
  Accept(worker, update, output);
  if (Released(worker)) output.answers.push_back(worker);
  AnswerNewlyReleased(min, worker, output);
  return absl::OkStatus();
}

void ServerProcessor::Hold(Member& member, Gradient::Update update) {
  MILLRACE_CHECK(member.held.size() < options_.pipeline);
  if (member.held.empty()) ++held_;
  member.held.push_back(std::move(update));
}

Gradient::Update ServerProcessor::TakeHeld(Member& member) {
  MILLRACE_CHECK(!member.held.empty() && held_ > 0);
  Gradient::Update update = std::move(member.held.front());
  member.held.pop_front();
  if (member.held.empty()) --held_;
  return update;
}

Status ServerProcessor::TryFinishRound(ServerOutput& output) {
  if (held_ < clocks_.present()) return absl::OkStatus();
  std::vector<WorkerId> round;
  std::vector<const Gradient::Update*> updates;
  for (const auto& [worker, member] : members_) {
    if (clocks_.left(worker)) continue;
    MILLRACE_CHECK(!member.held.empty());
    round.push_back(worker);
    updates.push_back(&member.held.front());
  }
  if (round.empty()) return absl::OkStatus();
  MILLRACE_CHECK(clocks_.Staleness() == 0);  // whom the round is of stands at its clock
  if (options_.keeps_previous_round()) {
    mutable_shard().KeepPreviousRound();
    previous_.Begin(moments_, row_time());
  }
  step_ms_ = seen_ms_;
  MILLRACE_RETURN_IF_ERROR(Step(updates, 0));
  ForgetIfTold(updates);
  const Size told = ToldBy(updates);
  for (const WorkerId worker : round) {
    const Gradient::Update update = TakeHeld(members_.at(worker));
    Accept(worker, update, output);
    output.answers.push_back(worker);
  }
  Resize(told, output);
  Announce();
  MILLRACE_CHECK(clocks_.Staleness() == 0);
  return absl::OkStatus();
}

Status ServerProcessor::Step(Updates updates, size_t average_over) {
  PreviousRound* const previous = options_.keeps_previous_round() ? &previous_ : nullptr;
  if (model_.parameters() != nullptr) {
    // (Of a sequential job that is the clock of the round.)
    MILLRACE_ASSIGN_OR_RETURN(
        const ShardParameters::Outcome step,
        model_.StepParameters(updates, clocks_.Furthest(), step_ms_, previous, sync_));
    counters_.set_parts_before_put(counters_.parts_before_put() + step.parts_before_put);
    counters_.set_handler_errors(counters_.handler_errors() + step.handler_errors);
    counters_.set_numbers_refused(counters_.numbers_refused() + step.numbers_refused);
    if (!step.is_finite) CountNonFiniteUpdate();
    return absl::OkStatus();
  }
  MILLRACE_ASSIGN_OR_RETURN(const bool is_finite,
                            model_.Step(updates, average_over, step_ms_, previous));
  if (!is_finite) CountNonFiniteUpdate();
  return absl::OkStatus();
}

void ServerProcessor::ForgetIfTold(Updates updates) {
  uint64_t told = 0;
  for (const Gradient::Update* update : updates) told = std::max(told, update->drifts());
  if (!options_.forgets || told <= forgotten_) return;
  forgotten_ = told;
  model_.Forget();
}

void ServerProcessor::Accept(WorkerId worker, const Gradient::Update& update,
                             ServerOutput& output) {
  Member& member = members_.at(worker);
  // Shards may take different attempts of a clock; only shard 0's word counts, and never goes back.
  member.rows.Count(update.rows_end(), update.repeated_end());
  member.buffer_rows = update.buffer_rows();
  KeepWanted(member, update.wanted());
  CountOnce(update, clocks_.clock(worker));
  CountDeadLetters(update.dead_letters(), output);
  sync_.CountUpdate();
  clocks_.Advance(worker);
}

void ServerProcessor::CountOnce(const Gradient::Update& update, Clock clock) {
  if (update.progressive().rows() > 0) {
    const EvaluationSums sums = FromProto(update.progressive());
    progressive_.Merge(sums);
    window_.Add(sums, progressive_.rows);
    const bool has_drifted = drift_.Add(sums.rows, DriftLoss(sums, progressive_, options_.classes),
                                        progressive_.rows, clock);
    if (has_drifted && options_.forgets) ++moments_.drifts;
  }
  if (update.tail().rows() > 0) tail_.Merge(FromProto(update.tail()));
  if (HasMoments(update.moments())) {
    Moments merged = moments_;
    merged.Merge(FromProto(update.moments()));
    if (merged.IsValid()) moments_ = std::move(merged);
  }
  rows_trained_ += update.new_rows();
  if (update.row_count() > 0) train_loss_ = update.train_loss();
}

void ServerProcessor::CountDeadLetters(
    const google::protobuf::RepeatedPtrField<DeadLetter>& letters, ServerOutput& output) {
  for (const DeadLetter& letter : letters) {
    // A record that is none of ours counts as one.
    counters_.set_undecodable_rows(counters_.undecodable_rows() + std::max(letter.rows(), 1U));
    output.dead_letters.push_back(letter);
  }
}

void ServerProcessor::AnswerNewlyReleased(std::optional<Clock> before, WorkerId but,
                                          ServerOutput& output) const {
  if (!before) return;
  for (const WorkerId worker : options_.consistency.NewlyReleased(clocks_, *before)) {
    if (worker != but) output.answers.push_back(worker);
  }
}

std::vector<WorkerId> ServerProcessor::WaitedFor() const {
  if (lost_) return lost_->Silent();
  std::vector<WorkerId> missing;
  bool someone = false;
  for (const auto& [worker, member] : members_) {
    if (clocks_.left(worker)) continue;
    if (!member.held.empty()) {
      someone = true;
    } else {
      missing.push_back(worker);
    }
  }
  if (!someone) missing.clear();
  return missing;
}

}  // namespace millrace
