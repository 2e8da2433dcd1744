#include "processors/worker_training_processor.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/distinct_ids.h"
#include "processors/update_figures.h"
#include "topics/figures_codec.h"
#include "topics/message_codec.h"
#include "topics/partitioning.h"
#include "topics/weights_codec.h"

namespace millrace {
namespace {

// Questions whose answers ask for rows which are not there, before it is believed that they are
// gone.
constexpr uint32_t kPatienceWithMissingRows = 5;

}  // namespace

WorkerTrainingProcessor::WorkerTrainingProcessor(const WorkerOptions& options, const Model& model,
                                                 BatchSource& source, uint64_t last_number)
    : options_(options),
      model_(model),
      source_(source),
      trainer_(options, model),
      encoder_(options, model),
      parts_(options.shards, Part(options.pipeline)),
      in_flight_(options.pipeline),
      first_number_(last_number),
      last_number_(last_number) {
  MILLRACE_CHECK(options.shards >= 1 && options.worker < options.workers);
  MILLRACE_CHECK(options.pipeline == 1 || !IsSequential());
}

KeyRange WorkerTrainingProcessor::RangeOf(ShardId shard) const {
  return RangeOfShard(shard, options_.shards, model_.parameter_count());
}

Gradient WorkerTrainingProcessor::NewMessage() {
  Gradient message;
  message.set_job(options_.job);
  message.set_epoch(options_.epoch);
  message.set_worker(options_.worker);
  message.set_number(++last_number_);
  message.set_joined(options_.joined);
  return message;
}

void WorkerTrainingProcessor::Send(ShardId shard, const Gradient& message, WorkerOutput& output) {
  StatusOr<std::string> body = SerializeMessage(message, options_.most_message_bytes);
  if (!body.ok()) {
    failed_ = body.status();
    return;
  }
  output.messages.push_back(
      {shard, std::make_shared<const MessageBytes>(*std::move(body)), message.number()});
}

void WorkerTrainingProcessor::Ask(ShardId shard, std::optional<Clock> clock,
                                  const std::vector<EmbeddingId>& wanted, WorkerOutput& output) {
  Gradient message = NewMessage();
  message.mutable_ask()->mutable_wanted()->Add(wanted.begin(), wanted.end());
  if (clock) message.set_clock(*clock);
  Send(shard, message, output);
}

// (The reply corrects what somebody has made up, as one to a repeated message does.)
void WorkerTrainingProcessor::AskInDoubt(ShardId shard, WorkerOutput& output) {
  Part& part = parts_[shard];
  if (std::exchange(part.asked_in_doubt, true)) return;
  Ask(shard, std::nullopt, {}, output);
  part.repeated.push_back(last_number_);
}

void WorkerTrainingProcessor::Start(WorkerOutput& output) {
  for (ShardId shard = 0; shard < options_.shards; ++shard) Ask(shard, std::nullopt, {}, output);
}

Status WorkerTrainingProcessor::ProcessWeights(std::string_view body) {
  MILLRACE_ASSIGN_OR_RETURN(Weights message,
                            DecodeWeights(body, WeightsShapeFrom(options_, model_)));
  Part& part = parts_[message.shard()];
  if (message.lost()) {
    part.is_lost = true;
    part.was_lost = true;
    part.asked_to_restore = true;
  } else if (message.previous_round()) {
    const bool serves = part.known && !part.left && message.clock() + 1 == part.clock;
    if (serves && HasWeights(message)) {
      part.previous_round = std::make_shared<const Weights>(std::move(message));
    }
  } else {
    Take(std::move(message), nullptr);
    part.TakeValues(IsSequential());
  }
  return absl::OkStatus();
}

bool WorkerTrainingProcessor::ProcessShared(const std::shared_ptr<const SharedWeights>& shared) {
  Part& part = parts_[shared->shard()];
  if (std::optional<Weights> answer = AnswerFrom(*shared, options_.worker)) {
    Take(*std::move(answer), shared);
    return true;
  }
  // An answer names a record that it was made with. (Without rows there are no such answers, and
  // what is published for others would only fill memory.)
  if (model_.row_width() == 0 && shared->answers().empty()) return false;
  return part.TakeShared(shared, IsSequential());
}

void WorkerTrainingProcessor::Take(Weights message, std::shared_ptr<const SharedWeights> values) {
  Part& part = parts_[message.shard()];
  // Of the worker's life before, or of a shard that has not let it in.
  if (message.clock() < options_.joined) return;
  const bool is_ours = IsOurs(message.answers_to());
  const ShardView::Effect effect = part.Take(std::move(message), std::move(values), is_ours);
  if (effect.denies_leave) ++denied_leaves_;
  if (!effect.corrects) return;
  in_flight_
      .Clear();  // what was sent since may have been forgotten, and nobody leaves for that clock
  leave_clock_.reset();
}

bool WorkerTrainingProcessor::answered() const {
  return std::all_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.known; });
}

std::vector<ShardId> WorkerTrainingProcessor::SilentShards() const {
  std::vector<ShardId> silent;
  for (ShardId shard = 0; shard < options_.shards; ++shard) {
    if (!parts_[shard].known) silent.push_back(shard);
  }
  return silent;
}

void WorkerTrainingProcessor::UpdateProgress() {
  Clock clock = parts_[0].clock;
  for (const Part& part : parts_) clock = std::min(clock, part.clock);
  const RowProgress& rows = RowsAgo(*parts_[0].message, parts_[0].clock - clock);
  progress_ = {clock, RowNumber(rows.end()), rows.updates_without_rows(),
               RowNumber(rows.repeated_end())};
}

Status WorkerTrainingProcessor::TryTrain(WorkerOutput& output) {
  AnswerLostShards(output);
  MILLRACE_RETURN_IF_ERROR(failed_);
  if (!answered()) return absl::OkStatus();
  UpdateProgress();
  if (!source_.Told(progress_, parts_[0].is_reply)) AskInDoubt(ShardId(0), output);
  in_flight_.Settle(progress_);
  owed_ = false;
  if (SomeoneLeft()) return FollowLeave(output);
  if (leave_clock_ && progress_.clock <= *leave_clock_) return absl::OkStatus();
  leave_clock_.reset();
  while (!in_flight_.full()) {
    MILLRACE_ASSIGN_OR_RETURN(const bool sent, TrainNext(output));
    MILLRACE_RETURN_IF_ERROR(failed_);
    if (!sent) break;
  }
  return absl::OkStatus();
}

StatusOr<bool> WorkerTrainingProcessor::TrainNext(WorkerOutput& output) {
  next_ = in_flight_.Next(progress_);
  if (!HasEveryPart(next_.clock, output)) return false;
  owed_ = in_flight_.empty();
  source_.Forget(progress_);
  OfferValues();
  OfferRows(output);
  const StatusOr<BatchState> next = source_.Next(next_, batch_);
  if (absl::IsOutOfRange(next.status())) {
    MILLRACE_RETURN_IF_ERROR(OnMissingRows(next.status()));
    return false;
  }
  MILLRACE_ASSIGN_OR_RETURN(const BatchState state, next);
  if (state == BatchState::kWait) return false;
  if (state == BatchState::kLeave) {
    if (!in_flight_.empty()) return false;  // a shard takes a leave at its present clock only
    owed_ = false;
    leave_clock_ = next_.clock;
    LeaveAll(false, output);
    return false;
  }
  if (steps_ == nullptr && model_.row_width() > 0) {
    needed_ = IdsOf(RowsView(batch_.rows));
    if (!HasEmbeddings(output)) return false;
  }
  owed_ = false;
  if (steps_ != nullptr) {
    SendStep(output);
  } else {
    SendUpdate(output);
  }
  return true;
}

// Rows before the one where reading began are needed by nobody, so this is what a zombie's server
// said long ago and got through only now. It is forgotten: the answer is still to come. The same to
// one question after the other is no zombie: the rows were deleted by somebody else. (A zombie may
// have said it many times; between two questions that counts once.)
Status WorkerTrainingProcessor::OnMissingRows(const Status& missing) {
  const Clock clock = progress_.clock;
  if (missing_rows_clock_ != clock) missing_rows_ = 0;
  missing_rows_clock_ = clock;
  if (std::exchange(asked_, false)) ++missing_rows_;
  if (missing_rows_ >= kPatienceWithMissingRows) {
    return absl::OutOfRangeError(
        "input-data, partition " + std::to_string(options_.worker) + ": " +
        std::string(missing.message()) +
        ": rows that no update has counted were deleted. Restore the topic, or start a new job "
        "(another --job)");
  }
  for (Part& part : parts_) {
    part.is_set_back = part.known && part.clock == clock;
    part.known = part.known && part.clock != clock;
  }
  owed_ = false;
  return absl::OkStatus();
}

Clock WorkerTrainingProcessor::LeastMinClock(Clock clock) const {
  const Training::Consistency& consistency = options_.training.consistency();
  if (consistency.model() != Training::Consistency::BOUNDED) return 0;
  return clock > consistency.max_delay() ? clock - consistency.max_delay() : Clock(0);
}

bool WorkerTrainingProcessor::HasEveryPart(Clock next, WorkerOutput& output) {
  const Clock clock = progress_.clock;
  bool all = true;
  for (ShardId shard = 0; shard < options_.shards; ++shard) {
    Part& part = parts_[shard];
    // What is held back has no weights in it. And when one shard is further on than updates may be
    // in flight, no shard is at `clock` any more: what another said is old, and news are on their
    // way.
    if (!part.released || part.clock > clock + options_.pipeline) all = false;
    // What is in flight counts as delay, too. (An update that is not ahead was released.)
    if (next > part.clock && part.message->min_clock() < LeastMinClock(next)) all = false;
    // Of a shard that has gone on, its answer of the clock before will do, which has its values.
    const bool has_previous = part.clock > clock && part.previous_round;
    if (!has_previous && part.LacksValues()) all = false;
    // Weights of a later clock would serve to learn, but not to repeat an update to the byte.
    if (IsSequential() && part.clock == clock + 1 && !part.previous_round) {
      if (!std::exchange(part.asked_for_previous, true)) Ask(shard, clock, {}, output);
      all = false;
    }
  }
  return all;
}

const std::shared_ptr<const Weights>& WorkerTrainingProcessor::AnswerOf(const Part& part) const {
  const bool gone_on = part.clock > progress_.clock && part.previous_round != nullptr;
  return gone_on ? part.previous_round : part.message;
}

std::vector<std::vector<EmbeddingId>> WorkerTrainingProcessor::IdsOf(RowsView rows) const {
  std::vector<EmbeddingId> ids;
  for (const Row* row : rows) model_.AppendIds(*row, ids);
  SortDistinct(ids);
  return SplitByShard(ids, options_.shards);
}

bool WorkerTrainingProcessor::LacksEmbeddings(ShardId shard) const {
  const Part& part = parts_[shard];
  const Weights& message = MessageOf(part);
  if (&message != part.message.get()) {  // the answer of the clock before
    return !std::ranges::includes(message.embeddings().id(), needed_[shard]);
  }
  return !part.rows.Have(needed_[shard], LeastMinClock(next_.clock));
}

void WorkerTrainingProcessor::FindRows(ShardId shard, std::vector<const float*>& found) const {
  const Part& part = parts_[shard];
  const Weights& message = MessageOf(part);
  const size_t width = model_.row_width();
  if (&message == part.message.get()) {
    part.rows.FindAll(needed_[shard], width, LeastMinClock(next_.clock), found);
    return;
  }
  const auto& ids = message.embeddings().id();
  for (const EmbeddingId id : needed_[shard]) {
    const auto place = std::ranges::lower_bound(ids, id) - ids.begin();
    found.push_back(message.embeddings().value().data() + static_cast<size_t>(place) * width);
  }
}

bool WorkerTrainingProcessor::HasEmbeddings(WorkerOutput& output) {
  bool all = true;
  for (ShardId shard = 0; shard < options_.shards; ++shard) {
    if (!LacksEmbeddings(shard)) continue;
    all = false;
    // (What was asked of the clock before is no question for this one.)
    const Part& part = parts_[shard];
    if (part.asked_for_embeddings != MessageOf(part).clock()) AskForEmbeddings(shard, output);
  }
  return all;
}

void WorkerTrainingProcessor::AskForEmbeddings(ShardId shard, WorkerOutput& output) {
  Part& part = parts_[shard];
  part.asked_for_embeddings = Clock(MessageOf(part).clock());
  // A shard that has gone on serves its previous round, by the clock that it is asked for.
  Ask(shard, part.asked_for_embeddings, needed_[shard], output);
}

void WorkerTrainingProcessor::AssembleEmbeddings() {
  const size_t width = model_.row_width();
  struct Source {
    EmbeddingId id;
    const float* values;
  };
  std::vector<Source> sources;
  std::vector<const float*> found;
  for (ShardId shard = 0; shard < options_.shards; ++shard) {
    const std::vector<EmbeddingId>& ids = needed_[shard];
    found.clear();
    FindRows(shard, found);
    for (size_t i = 0; i < ids.size(); ++i) {
      MILLRACE_CHECK(found[i] != nullptr);  // HasEmbeddings
      sources.push_back({ids[i], found[i]});
    }
  }
  if (options_.shards > 1) std::ranges::sort(sources, {}, &Source::id);
  rows_.ids.clear();
  rows_.values.clear();
  for (const Source& source : sources) {
    rows_.ids.push_back(source.id);
    rows_.values.insert(rows_.values.end(), source.values, source.values + width);
  }
}

void WorkerTrainingProcessor::AssembleWeights() {
  weights_.resize(model_.parameter_count());
  for (ShardId shard = 0; shard < options_.shards; ++shard) {
    const Weights& message = MessageOf(parts_[shard]);
    const SharedWeights* const values = parts_[shard].values.get();
    MILLRACE_CHECK(HasWeights(message) && (values != nullptr || !message.has_shared()));
    const Slice& slice = SliceOf(message, values);
    MILLRACE_CHECK(slice.end() <= weights_.size());
    std::copy(slice.dense().begin(), slice.dense().end(),
              weights_.begin() + static_cast<ptrdiff_t>(slice.begin()));
    if (shard == 0) moments_ = FromProto(MomentsOf(message, values));
  }
}

Gradient WorkerTrainingProcessor::NewUpdate(const BatchTrainer::Result& result) {
  Gradient message = NewMessage();
  message.set_clock(next_.clock);
  Gradient::Update& update = *message.mutable_update();
  *update.mutable_mark() = Mark();
  update.set_attempt(++attempts_);
  update.set_buffer_rows(static_cast<uint32_t>(source_.size()));
  update.set_drifts(moments_.drifts);
  update.set_resize(moments_.resize);
  update.set_workers(moments_.workers);
  DescribeBatch(batch_, result, update);
  return message;
}

void WorkerTrainingProcessor::SendUpdate(WorkerOutput& output) {
  AssembleWeights();
  const bool has_rows = model_.row_width() > 0;
  if (has_rows) AssembleEmbeddings();
  rows_.gradient.assign(rows_.values.size(), 0.0f);
  const BatchTrainer::Result result =
      trainer_.Train(batch_, weights_, moments_, {rows_.ids, rows_.values, rows_.gradient});
  rows_seen_ += result.new_rows;
  if (options_.evaluate_batches) {
    output.evaluations.push_back(
        {next_.clock, ComputeFigures(result.whole, options_.classes), rows_seen_});
  }
  // Rows that were read to be tested only are not among those that have been learnt from.
  std::vector<std::vector<EmbeddingId>> learnt;
  std::vector<std::vector<EmbeddingId>> next;
  if (has_rows) {
    learnt = result.trained.size() == batch_.rows.size() ? needed_ : IdsOf(result.trained);
    // The answer to this update comes when the others are in flight, and serves the one after them.
    next = IdsOf(source_.RowsOfBatchAt(batch_.rows_end, options_.pipeline - 1));
  }
  const Gradient common = NewUpdate(result);
  encoder_.Begin(result, trainer_.gradient(), rows_, learnt);
  SendParts(
      common.number(),
      [&](ShardId shard) {
        Gradient message = common;
        Gradient::Update& update = *message.mutable_update();
        if (shard == 0) AddBatchFigures(options_, next_, batch_, result, update);
        if (has_rows) update.mutable_wanted()->Assign(next[shard].begin(), next[shard].end());
        return encoder_.EncodePart(shard, message);
      },
      output);
}

void WorkerTrainingProcessor::SendParts(
    uint64_t number, const std::function<StatusOr<MessageBytes>(ShardId shard)>& encode,
    WorkerOutput& output) {
  UpdatesInFlight::Update sent{next_, AfterBatch(next_, batch_)};
  for (ShardId shard = 0; shard < options_.shards; ++shard) {
    StatusOr<MessageBytes> body = encode(shard);
    if (!body.ok()) {
      failed_ = body.status();
      return;
    }
    sent.messages.push_back(
        {shard, std::make_shared<const MessageBytes>(*std::move(body)), number});
  }
  output.messages.insert(output.messages.end(), sent.messages.begin(), sent.messages.end());
  in_flight_.Add(std::move(sent));
}

void WorkerTrainingProcessor::Repeat(WorkerOutput& output) {
  for (Part& part : parts_) part.repeated.clear();
  const size_t before = output.messages.size();
  SendAgain(output);
  for (size_t i = before; i < output.messages.size(); ++i) {
    parts_[output.messages[i].shard].repeated.push_back(output.messages[i].number);
  }
}

void WorkerTrainingProcessor::SendAgain(WorkerOutput& output) {
  ReportToShardsSetBack(output);
  for (ShardId shard = 0; shard < options_.shards; ++shard) {
    if (parts_[shard].known) continue;
    Ask(shard, std::nullopt, {}, output);
    asked_ = true;
  }
  if (DoubtsLeave(true, output)) return;
  if (left()) {  // nothing else makes a lost shard ask again, should the report be lost, too
    for (Part& part : parts_) part.asked_to_restore |= part.is_lost;
    // That the worker has left a server may have said that was replaced before the state was lost.
    for (ShardId shard = 0; shard < options_.shards; ++shard) {
      if (parts_[shard].was_lost) Ask(shard, std::nullopt, {}, output);
    }
    return AnswerLostShards(output);
  }
  if (leave_clock_ || SomeoneLeft()) {
    // While it doubts what shard 0 has counted the source does not read on to the stream's end.
    if (Part& first = parts_[0]; SomeoneLeft() && !first.left && !IsBorneOut(first)) {
      first.asked_in_doubt = false;
      AskInDoubt(ShardId(0), output);
    }
    return LeaveAll(true, output);
  }
  if (!in_flight_.empty()) return in_flight_.AppendTo(output.messages);
  Clock newest = 0;
  for (const Part& part : parts_) newest = std::max(newest, part.clock);
  const Clock least = LeastClock().value_or(newest);
  for (ShardId shard = 0; shard < options_.shards; ++shard) {
    const Part& part = parts_[shard];
    // Held back by the consistency model, the release may have gone by unread; so may what another
    // instance of this worker was told.
    // And what the rows do not bear out, or no other shard comes near to, may have been made up.
    const bool old = !part.released || part.clock + options_.pipeline < newest ||
                     part.clock > least + options_.pipeline || !IsBorneOut(part);
    if (part.known && (old || part.LacksValues())) Ask(shard, std::nullopt, {}, output);
    if (part.asked_for_previous && !part.previous_round) Ask(shard, progress_.clock, {}, output);
    if (part.asked_for_embeddings && LacksEmbeddings(shard)) AskForEmbeddings(shard, output);
  }
}

}  // namespace millrace
