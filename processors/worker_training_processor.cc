#include "processors/worker_training_processor.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "models/local_solver.h"
#include "topics/codec.h"
#include "topics/packed_floats.h"
#include "topics/partitioning.h"

namespace millrace {
namespace {

// Questions whose answers ask for rows which are not there, before it is believed that they are
// gone.
constexpr uint32_t kPatienceWithMissingRows = 5;

WorkerOutput::Message Encoded(ShardId shard, const Gradient& message) {
  return {shard, std::make_shared<const std::string>(message.SerializeAsString())};
}

WorkerOutput::Message EncodedWithSlice(ShardId shard, const Gradient& message,
                                       std::span<const float> values, KeyRange range) {
  return {shard, std::make_shared<const std::string>(
                     SerializeWithDenseSlice(message, Gradient::kSliceFieldNumber, values, range))};
}

LocalSolverOptions SolverOptions(const Training& training) {
  LocalSolverOptions options;
  const Training::Update& update = training.update();
  options.kind = update.solver() == Training::Update::LOCAL_SGD ? LocalSolverOptions::Kind::kSgd
                                                                : LocalSolverOptions::Kind::kLbfgs;
  options.iterations = update.local_iterations();
  options.learning_rate = update.local_learning_rate();
  options.l2 = training.l2();
  return options;
}

}  // namespace

WorkerTrainingProcessor::WorkerTrainingProcessor(const WorkerOptions& options, const Model& model,
                                                 BatchSource& source, InputDataProcessor& input)
    : options_(options),
      model_(model),
      source_(source),
      input_(input),
      parts_(options.shards),
      weights_(model.parameter_count()),
      gradient_(model.parameter_count(), model.block_size()) {
  const double top_k = options.training.compression().top_k();
  if (top_k < 1) top_k_.emplace(top_k, model.parameter_count(), model.row_width());
}

KeyRange WorkerTrainingProcessor::RangeOf(ShardId shard) const {
  return RangeOfShard(shard, options_.shards, model_.parameter_count());
}

Gradient WorkerTrainingProcessor::NewMessage(Gradient::Kind kind) const {
  Gradient message;
  message.set_job(options_.job);
  message.set_epoch(options_.epoch);
  message.set_worker(options_.worker);
  message.set_kind(kind);
  return message;
}

void WorkerTrainingProcessor::Ask(ShardId shard, std::optional<Clock> clock,
                                  const std::vector<EmbeddingId>& wanted,
                                  WorkerOutput& output) const {
  Gradient message = NewMessage(Gradient::ASK);
  message.mutable_wanted()->Add(wanted.begin(), wanted.end());
  message.set_has_clock(clock.has_value());
  message.set_clock(clock.value_or(0));
  output.messages.push_back(Encoded(shard, message));
}

void WorkerTrainingProcessor::Start(WorkerOutput& output) {
  for (ShardId shard = 0; shard < options_.shards; ++shard) Ask(shard, std::nullopt, {}, output);
}

Status WorkerTrainingProcessor::ProcessWeights(std::string_view body) {
  Weights message;
  MILLRACE_RETURN_IF_ERROR(ParseMessage(body, message));
  if (message.job() != options_.job) {
    return absl::InvalidArgumentError("weights of another job");
  }
  if (message.epoch() != options_.epoch || message.shard() >= options_.shards) {
    return absl::InvalidArgumentError("weights of epoch " + std::to_string(message.epoch()) +
                                      ", shard " + std::to_string(message.shard()));
  }
  if (message.lost()) {
    parts_[message.shard()].asked_to_restore = true;
    return absl::OkStatus();
  }
  if (message.released() && !message.left()) {
    MILLRACE_RETURN_IF_ERROR(CheckSlice(message.slice(), RangeOf(message.shard())));
    if (static_cast<size_t>(message.slice().dense_size()) != RangeOf(message.shard()).size()) {
      return absl::InvalidArgumentError("weights without values");
    }
    if (message.shard() == 0) {
      const size_t columns = input_.shape().numeric;
      MILLRACE_RETURN_IF_ERROR(CheckMoments(message.moments(), columns));
      if (static_cast<size_t>(message.moments().count_size()) != columns) {
        return absl::InvalidArgumentError("weights without moments");
      }
    }
    MILLRACE_RETURN_IF_ERROR(CheckEmbeddings(message.embeddings(), model_.row_width(),
                                             message.shard(), options_.shards));
  }
  Part& part = parts_[message.shard()];
  if (message.replaced()) {
    const bool serves = part.known && !part.left && message.clock() + 1 == part.clock;
    if (serves && message.released() && !message.left()) part.replaced = std::move(message);
    return absl::OkStatus();
  }
  // A zombie's server answers late: what is older than what is known says nothing new.
  const bool newer = !part.known || message.clock() > part.clock;
  const bool better = part.known && message.clock() == part.clock &&
                      ((message.released() && !part.released) || (message.left() && !part.left) ||
                       (message.released() && part.asked_for_embeddings.has_value()));
  // A server that says all again may have lost what it was asked for besides.
  part.asked_for_replaced = false;
  part.asked_for_embeddings.reset();
  if (!newer && !better) return absl::OkStatus();
  if (newer) part.replaced.reset();
  part.known = true;
  part.clock = message.clock();
  part.released = message.released();
  part.left = message.left();
  part.message.Swap(&message);
  return absl::OkStatus();
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

bool WorkerTrainingProcessor::left() const {
  return std::all_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.left; });
}

bool WorkerTrainingProcessor::SomeoneLeft() const {
  return std::any_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.left; });
}

void WorkerTrainingProcessor::NoteCut(Gradient& message) const {
  const Weights& first = MessageOf(parts_[0]);
  message.set_snapshot(first.snapshot());
  message.set_cut(first.cut());
}

void WorkerTrainingProcessor::LeaveAll(bool again, WorkerOutput& output) {
  unanswered_.clear();
  for (ShardId shard = 0; shard < options_.shards; ++shard) {
    Part& part = parts_[shard];
    if (part.left || (!again && part.leave_sent == part.clock)) continue;
    part.leave_sent = part.clock;
    // A shard takes a leave only of the clock that it has come to.
    Gradient message = NewMessage(Gradient::LEAVE);
    message.set_clock(part.clock);
    NoteCut(message);
    if (shard == 0) {
      for (DeadLetter& letter : input_.DeadLetters(part.message.rows().end(), UINT64_MAX)) {
        *message.add_dead_letters() = std::move(letter);
      }
    }
    output.messages.push_back(Encoded(shard, message));
  }
}

// An instance to which the shard has said nothing knows from the others where it stands: no shard
// may be two clocks in front of another. (In a sequential job it is where everybody is.)
void WorkerTrainingProcessor::AnswerLostShards(WorkerOutput& output) {
  const bool sequential =
      options_.training.consistency().model() == Training::Consistency::SEQUENTIAL;
  bool others_have_said = true;
  std::optional<Clock> least;
  for (const Part& part : parts_) {
    if (!part.known && !part.asked_to_restore) others_have_said = false;
    if (part.known) least = std::min(least.value_or(part.clock), part.clock);
  }
  for (ShardId shard = 0; shard < options_.shards; ++shard) {
    Part& part = parts_[shard];
    if (!part.known && !others_have_said && !sequential) continue;
    if (!std::exchange(part.asked_to_restore, false)) continue;
    Gradient message = NewMessage(Gradient::RESTORE);
    if (part.known) {
      message.set_has_clock(true);
      message.set_clock(part.clock);
      message.set_left(part.left);
      *message.mutable_rows() = part.message.rows();
      *message.mutable_rows_before() = part.message.rows_before();
      if (part.message.has_slice()) *message.mutable_slice() = part.message.slice();
      if (part.message.has_moments()) *message.mutable_moments() = part.message.moments();
    } else if (least && !sequential) {
      message.set_has_clock(true);
      message.set_clock(*least);
    }
    output.messages.push_back(Encoded(shard, message));
  }
}

Status WorkerTrainingProcessor::TryTrain(WorkerOutput& output) {
  AnswerLostShards(output);
  if (!answered()) return absl::OkStatus();
  Clock clock = parts_[0].clock;
  for (const Part& part : parts_) clock = std::min(clock, part.clock);
  const Weights& first = parts_[0].message;
  const RowProgress& rows = parts_[0].clock == clock ? first.rows() : first.rows_before();
  progress_ = {clock, rows.end(), rows.updates_without_rows()};
  owed_ = false;
  if (SomeoneLeft()) {
    // If one shard says left, the worker leaves all.
    LeaveAll(false, output);
    return absl::OkStatus();
  }
  if (sent_clock_ && clock <= *sent_clock_) return absl::OkStatus();
  unanswered_.clear();
  if (!HasEveryPart(clock, output)) return absl::OkStatus();
  owed_ = true;
  input_.ForgetDeadLetters(progress_.rows_end);
  const StatusOr<BatchState> next = source_.Next(progress_, batch_);
  if (absl::IsOutOfRange(next.status())) {
    // Rows in front of where reading began are needed by nobody, so this is what a zombie's server
    // said long ago and got through only now. It is forgotten: the answer is still to come. The
    // same to one question after the other is no zombie: the rows were deleted by somebody else.
    // (A zombie may have said it many times; between two questions that counts once.)
    if (missing_rows_clock_ != clock) missing_rows_ = 0;
    missing_rows_clock_ = clock;
    if (std::exchange(asked_, false)) ++missing_rows_;
    if (missing_rows_ >= kPatienceWithMissingRows) return next.status();
    for (Part& part : parts_) part.known = part.known && part.clock != clock;
    owed_ = false;
    return absl::OkStatus();
  }
  MILLRACE_ASSIGN_OR_RETURN(const BatchState state, next);
  if (state == BatchState::kWait) return absl::OkStatus();
  if (state == BatchState::kReady && model_.row_width() > 0) {
    needed_ = IdsOf(RowsView(batch_.rows));
    if (!HasEmbeddings(output)) return absl::OkStatus();
  }
  owed_ = false;
  sent_clock_ = clock;
  if (state == BatchState::kLeave) {
    leaving_ = true;
    LeaveAll(false, output);
  } else {
    leaving_ = false;
    SendUpdate(batch_, output);
  }
  return absl::OkStatus();
}

bool WorkerTrainingProcessor::HasEveryPart(Clock clock, WorkerOutput& output) {
  const bool sequential =
      options_.training.consistency().model() == Training::Consistency::SEQUENTIAL;
  bool all = true;
  for (ShardId shard = 0; shard < options_.shards; ++shard) {
    Part& part = parts_[shard];
    // What is held back has no weights in it. And when one shard is two clocks on, no shard is at
    // `clock` any more: what another said is old, and news are on their way.
    if (!part.released || part.clock > clock + 1) all = false;
    // Weights of a later clock would serve to learn, but not to repeat an update to the byte.
    if (sequential && part.clock == clock + 1 && !part.replaced) {
      if (!std::exchange(part.asked_for_replaced, true)) Ask(shard, clock, {}, output);
      all = false;
    }
  }
  return all;
}

const Weights& WorkerTrainingProcessor::MessageOf(const Part& part) const {
  const bool gone_on = part.clock > progress_.clock && part.replaced;
  return gone_on ? *part.replaced : part.message;
}

std::vector<std::vector<EmbeddingId>> WorkerTrainingProcessor::ByShard(
    std::vector<EmbeddingId> ids) const {
  std::ranges::sort(ids);
  ids.erase(std::ranges::unique(ids).begin(), ids.end());
  return SplitByShard(ids, options_.shards);
}

std::vector<std::vector<EmbeddingId>> WorkerTrainingProcessor::IdsOf(RowsView rows) const {
  std::vector<EmbeddingId> ids;
  for (const Row* row : rows) ids.insert(ids.end(), row->ids.begin(), row->ids.end());
  return ByShard(std::move(ids));
}

bool WorkerTrainingProcessor::LacksEmbeddings(ShardId shard) const {
  return !std::ranges::includes(MessageOf(parts_[shard]).embeddings().id(), needed_[shard]);
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
  part.asked_for_embeddings = MessageOf(part).clock();
  // A shard that has gone on serves what it replaced, by the clock that it is asked for.
  Ask(shard, part.asked_for_embeddings, needed_[shard], output);
}

void WorkerTrainingProcessor::AssembleEmbeddings() {
  const size_t width = model_.row_width();
  struct Source {
    EmbeddingId id;
    const float* values;
  };
  std::vector<Source> sources;
  for (ShardId shard = 0; shard < options_.shards; ++shard) {
    const EmbeddingBlock& block = MessageOf(parts_[shard]).embeddings();
    size_t place = 0;
    for (EmbeddingId id : needed_[shard]) {
      while (block.id(static_cast<int>(place)) != id) ++place;
      sources.push_back({id, block.value().data() + place * width});
    }
  }
  std::ranges::sort(sources, {}, &Source::id);
  ids_.clear();
  rows_.clear();
  for (const Source& source : sources) {
    ids_.push_back(source.id);
    rows_.insert(rows_.end(), source.values, source.values + width);
  }
  row_gradient_.assign(rows_.size(), 0.0f);
}

std::vector<float> WorkerTrainingProcessor::GradientOf(std::span<const EmbeddingId> ids) const {
  const size_t width = model_.row_width();
  std::vector<float> gradient;
  gradient.reserve(ids.size() * width);
  size_t place = 0;
  for (EmbeddingId id : ids) {
    while (ids_[place] != id) ++place;
    const float* const values = row_gradient_.data() + place * width;
    gradient.insert(gradient.end(), values, values + width);
  }
  return gradient;
}

const TopK::Chosen* WorkerTrainingProcessor::ChooseLargest(
    const std::vector<std::vector<EmbeddingId>>& learnt) {
  if (!top_k_) return nullptr;
  std::vector<EmbeddingId> ids;
  for (const std::vector<EmbeddingId>& part : learnt)
    ids.insert(ids.end(), part.begin(), part.end());
  std::ranges::sort(ids);
  return &top_k_->Choose(gradient_, ids, GradientOf(ids));
}

// One for all shards: what a value is rounded to must not depend on how many there are.
int32_t WorkerTrainingProcessor::ExponentOf(std::span<const float> change,
                                            const TopK::Chosen* chosen) {
  const FloatFormat format = options_.training.compression().values();
  if (format != Training::Compression::FP16) return 0;
  if (chosen != nullptr) {
    return PackingExponent(format,
                           std::max(LargestFinite(chosen->values), LargestFinite(chosen->rows)));
  }
  const std::span<const float> dense = change.empty() ? gradient_.values() : change;
  return PackingExponent(format, std::max(LargestFinite(dense), LargestFinite(row_gradient_)));
}

void WorkerTrainingProcessor::EncodePart(ShardId shard, const TopK::Chosen& chosen,
                                         Gradient& message) const {
  const size_t value_bytes = BytesOfValue(options_.training.compression().values());
  EncodeSlice(chosen.keys, chosen.values, RangeOf(shard), value_bytes, *message.mutable_slice());
  const size_t width = model_.row_width();
  if (width == 0) return;
  EmbeddingBlock& block = *message.mutable_embeddings();
  block.Clear();
  for (size_t i = 0; i < chosen.ids.size(); ++i) {
    if (ShardOfEmbedding(chosen.ids[i], options_.shards) != shard) continue;
    block.add_id(chosen.ids[i]);
    const float* const row = chosen.rows.data() + i * width;
    block.mutable_value()->Add(row, row + width);
  }
}

void WorkerTrainingProcessor::AssembleWeights() {
  for (ShardId shard = 0; shard < options_.shards; ++shard) {
    const Weights& message = MessageOf(parts_[shard]);
    const Slice& slice = message.slice();
    std::copy(slice.dense().begin(), slice.dense().end(),
              weights_.begin() + static_cast<ptrdiff_t>(slice.begin()));
    if (shard == 0) moments_ = FromProto(message.moments());
  }
}

// NOLINTNEXTLINE(readability-function-size): its steps fill one message, in the order of its fields
void WorkerTrainingProcessor::SendUpdate(const Batch& batch, WorkerOutput& output) {
  AssembleWeights();
  if (model_.row_width() > 0) AssembleEmbeddings();
  const Training& training = options_.training;
  const auto stream_row = [&](size_t i) {
    return StreamRow({options_.worker, batch.numbers[i]}, options_.workers);
  };
  const uint64_t freeze = training.freeze_after_rows();
  const uint64_t tail = training.tail_after_rows() > 0 ? training.tail_after_rows() : freeze;
  // Numbers ascend, so what may be learnt from is a range.
  size_t trained_end = batch.rows.size();
  while (freeze > 0 && trained_end > 0 && stream_row(trained_end - 1) >= freeze) --trained_end;
  const size_t trained_begin = std::min(batch.first_trained, trained_end);

  // The scaling knows the features of the rows it is about to scale, never their labels.
  Moments new_moments(moments_.columns());
  if (training.scaling() == Training::RUNNING) {
    for (size_t i = batch.first_new; i < trained_end; ++i) new_moments.Add(*batch.rows[i]);
  }
  Moments moments = moments_;
  moments.Merge(new_moments);
  const Scaler scaler = training.scaling() == Training::RUNNING
                            ? Scaler(moments)
                            : Scaler::Identity(moments.columns());

  const size_t width = model_.score_count();
  const RowsView rows(batch.rows);
  const RowsView trained = rows.subspan(trained_begin, trained_end - trained_begin);
  scores_.resize(rows.size() * width);
  const std::span<float> scores(scores_);
  const bool changes = training.update().kind() == Training::Update::WEIGHT_CHANGE;
  gradient_.Clear();
  const auto compute = [&](size_t begin, size_t end, GradientSum* gradient) {
    return model_.Compute(rows.subspan(begin, end - begin), scaler, weights_,
                          {ids_, rows_, row_gradient_}, gradient,
                          scores.subspan(begin * width, (end - begin) * width));
  };
  compute(0, trained_begin, nullptr);
  BatchLoss loss = compute(trained_begin, trained_end, changes ? nullptr : &gradient_);
  compute(trained_end, rows.size(), nullptr);
  std::vector<float> change;
  if (changes && !trained.empty()) {
    change = SolveLocally(model_, trained, scaler, weights_, SolverOptions(training)).change;
  }

  EvaluationSums progressive;
  EvaluationSums progressive_tail;
  EvaluationSums whole_batch;
  uint64_t new_rows = 0;
  uint64_t new_trained = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::span<const float> row_scores = scores.subspan(i * width, width);
    const auto add = [&](EvaluationSums& sums) {
      sums.AddRow(*rows[i], row_scores, options_.classes);
    };
    if (i >= batch.first_new && !rows[i]->replayed) {
      ++new_rows;
      if (i >= trained_begin && i < trained_end) ++new_trained;
      add(progressive);
      if (tail > 0 && stream_row(i) >= tail) add(progressive_tail);
    }
    if (options_.evaluate_batches) add(whole_batch);
  }
  rows_seen_ += new_rows;
  if (options_.evaluate_batches) {
    output.evaluations.push_back(
        {progress_.clock, ComputeFigures(whole_batch, options_.classes), rows_seen_});
  }

  Gradient message = NewMessage(Gradient::UPDATE);
  NoteCut(message);
  message.set_clock(progress_.clock);
  message.set_attempt(++attempts_);
  message.set_row_count(trained.size());
  message.set_weight_sum(loss.weight_sum);
  message.set_rows_end(batch.rows_end);
  message.set_buffer_rows(static_cast<uint32_t>(source_.size()));
  message.set_train_loss(loss.weight_sum > 0 ? loss.loss_sum / loss.weight_sum : 0);
  // Rows that were read to be tested only are not among those that have been learnt from.
  std::vector<std::vector<EmbeddingId>> learnt;
  std::vector<std::vector<EmbeddingId>> next;
  if (model_.row_width() > 0) {
    learnt = trained.size() == rows.size() ? needed_ : IdsOf(trained);
    std::vector<EmbeddingId> ids;
    source_.AppendIdsOf(progress_.clock + 1, ids);
    next = ByShard(std::move(ids));
  }
  const FloatFormat format = training.compression().values();
  const TopK::Chosen* const chosen = trained.empty() ? nullptr : ChooseLargest(learnt);
  const int32_t exponent = trained.empty() ? 0 : ExponentOf(change, chosen);
  unanswered_.clear();
  for (ShardId shard = 0; shard < options_.shards; ++shard) {
    const KeyRange range = RangeOf(shard);
    if (model_.row_width() > 0) {
      message.mutable_wanted()->Assign(next[shard].begin(), next[shard].end());
    }
    message.clear_slice();
    std::optional<std::span<const float>> dense;  // as it is: it goes past `message`
    if (trained.empty()) {
      // Neither a slice nor rows.
    } else if (chosen != nullptr) {
      EncodePart(shard, *chosen, message);
    } else {
      if (changes || GoesDensely(gradient_, range, BytesOfValue(format))) {
        const std::span<const float> values = changes ? change : gradient_.values();
        dense = values.subspan(range.begin, range.size());
        if (format != Training::Compression::FLOAT32) {
          EncodeDenseSlice(*std::exchange(dense, std::nullopt), range, *message.mutable_slice());
        }
      } else {
        EncodeSlice(gradient_, range, BytesOfValue(format), *message.mutable_slice());
      }
      if (model_.row_width() > 0) {
        const std::vector<EmbeddingId>& ids = learnt[shard];
        const std::vector<float> sums = GradientOf(ids);
        message.mutable_embeddings()->mutable_id()->Assign(ids.begin(), ids.end());
        message.mutable_embeddings()->mutable_value()->Assign(sums.begin(), sums.end());
      }
    }
    if (!trained.empty()) PackUpdate(format, exponent, message);
    if (shard == 0) {
      message.set_new_rows(new_trained);
      ToProto(progressive, *message.mutable_progressive());
      if (progressive_tail.rows > 0) ToProto(progressive_tail, *message.mutable_tail());
      if (training.scaling() == Training::RUNNING) {
        ToProto(new_moments, *message.mutable_moments());
      }
      for (DeadLetter& letter : input_.DeadLetters(progress_.rows_end, batch.rows_end)) {
        *message.add_dead_letters() = std::move(letter);
      }
    } else {
      message.clear_new_rows();
      message.clear_progressive();
      message.clear_tail();
      message.clear_moments();
      message.clear_dead_letters();
    }
    unanswered_.push_back(dense ? EncodedWithSlice(shard, message, *dense, range)
                                : Encoded(shard, message));
  }
  output.messages.insert(output.messages.end(), unanswered_.begin(), unanswered_.end());
}

void WorkerTrainingProcessor::Repeat(WorkerOutput& output) {
  for (ShardId shard = 0; shard < options_.shards; ++shard) {
    if (parts_[shard].known) continue;
    Ask(shard, std::nullopt, {}, output);
    asked_ = true;
  }
  if (left()) return;
  if (leaving_ || SomeoneLeft()) return LeaveAll(true, output);
  if (!unanswered_.empty()) {
    output.messages.insert(output.messages.end(), unanswered_.begin(), unanswered_.end());
    return;
  }
  Clock newest = 0;
  for (const Part& part : parts_) newest = std::max(newest, part.clock);
  for (ShardId shard = 0; shard < options_.shards; ++shard) {
    const Part& part = parts_[shard];
    // Held back by the consistency model, the release may have gone by unread; so may what another
    // instance of this worker was told.
    const bool old = !part.released || part.clock + 1 < newest;
    if (part.known && old) Ask(shard, std::nullopt, {}, output);
    if (part.asked_for_replaced && !part.replaced) Ask(shard, progress_.clock, {}, output);
    if (part.asked_for_embeddings && LacksEmbeddings(shard)) AskForEmbeddings(shard, output);
  }
}

}  // namespace millrace
