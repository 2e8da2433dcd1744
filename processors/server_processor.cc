#include "processors/server_processor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "base/big_endian.h"
#include "base/check.h"
#include "models/initial_weights.h"
#include "topics/codec.h"

namespace millrace {
namespace {

// Of an update's values. The square of a larger one is no float any more, and a few of them would
// carry the weights to infinity.
constexpr float kLargestValue = 1e18f;

// An embedding row is a linear weight, then factors.
constexpr ParameterParts kPartsOfRow = {.penalised_end = 1, .linear_end = 1};

// How many of the range's keys stand in front of `end`.
size_t CountBefore(uint64_t end, KeyRange range) {
  return std::clamp(end, range.begin, range.end) - range.begin;
}

bool AllFinite(const std::vector<float>& values) {
  return AllWithin(values, std::numeric_limits<float>::max());
}

// Moments that no rows can have given are poison too: merged, they divide by zero.
bool IsSane(const Gradient& message) {
  return AllWithin(message.slice(), kLargestValue) &&
         AllWithin(message.embeddings(), kLargestValue) && std::isfinite(message.weight_sum()) &&
         message.weight_sum() >= 0 && std::isfinite(message.progressive().log_loss()) &&
         std::isfinite(message.tail().log_loss()) && std::isfinite(message.train_loss()) &&
         std::isfinite(message.progressive().squared_error()) &&
         std::isfinite(message.progressive().squared_target()) &&
         FromProto(message.moments()).IsValid();
}

DeadLetter MakeDeadLetter(const GradientRecord& record, ShardId shard, std::string reason) {
  DeadLetter letter;
  letter.set_topic("gradients");
  letter.set_partition(static_cast<int32_t>(shard));
  letter.set_offset(record.offset);
  letter.set_reason(std::move(reason));
  letter.set_key(std::string(record.key));
  letter.set_value(std::string(record.value));
  return letter;
}

}  // namespace

ServerProcessor::ServerProcessor(const ServerOptions& options, const OrderedByteMap* store)
    : options_(options),
      parts_{CountBefore(options.penalised_end, options.range),
             CountBefore(options.linear_end, options.range)},
      optimizer_(Optimizer::Create(options.optimizer)),
      shard_(options.range, options.average_changes ? 0 : optimizer_->slot_count(),
             options.shards > 1 && options.consistency.sequential(),
             InitialWeights(options.random_init_ranges, options.seed, options.range)),
      clocks_(options.workers),
      moments_(options.numeric_columns),
      replaced_moments_(options.numeric_columns),
      cut_(options.workers),
      sum_(options.range.size()) {
  for (WorkerId worker = 0; worker < options.workers; ++worker) members_[worker];
  if (!options.embeddings) return;
  EmbeddingTableOptions table = *options.embeddings;
  table.slot_floats = optimizer_->slot_floats(table.width(), kPartsOfRow);
  embeddings_ = std::make_unique<EmbeddingTable>(table, store);
}

Status ServerProcessor::Process(const GradientRecord& record, ServerOutput& output) {
  StatusOr<std::optional<Gradient>> message = Decode(record);
  const Status usable = message.ok() && message->has_value() ? Check(**message) : message.status();
  if (!usable.ok()) {
    counters_.set_refused(counters_.refused() + 1);
    output.dead_letters.push_back(
        MakeDeadLetter(record, options_.shard, std::string(usable.message())));
    return absl::OkStatus();
  }
  if (!message->has_value()) return absl::OkStatus();
  return Handle(*std::move(*message), record, output);
}

StatusOr<std::optional<Gradient>> ServerProcessor::Decode(const GradientRecord& record) {
  const std::optional<uint32_t> worker = DecodeBigEndian32(record.key);
  if (worker == kNoWorker) return DecodeRequest(record);
  if (!worker || !members_.contains(*worker)) {
    return absl::InvalidArgumentError("the key names no worker of this job");
  }
  MILLRACE_ASSIGN_OR_RETURN(const Frame frame, ParseFrame(record.value));
  std::optional<std::string> joined;
  std::string_view body = frame.body;
  if (frame.is_chunk) {
    joined = members_.at(*worker).joiner.Add(frame);
    if (!joined) return std::optional<Gradient>();
    body = *joined;
  }
  std::optional<Gradient> message(std::in_place);
  MILLRACE_RETURN_IF_ERROR(ParseMessage(body, *message));
  MILLRACE_RETURN_IF_ERROR(UnpackUpdate(options_.values, *message));
  if (message->worker() != *worker) {
    return absl::InvalidArgumentError("the key and the message name different workers");
  }
  return message;
}

// What no worker sends is never split.
StatusOr<std::optional<Gradient>> ServerProcessor::DecodeRequest(const GradientRecord& record) {
  MILLRACE_ASSIGN_OR_RETURN(const Frame frame, ParseFrame(record.value));
  std::optional<Gradient> message(std::in_place);
  MILLRACE_RETURN_IF_ERROR(ParseMessage(frame.body, *message));
  if (message->kind() == Gradient::SNAPSHOT || message->kind() == Gradient::CANCEL) return message;
  return absl::InvalidArgumentError("a worker's message whose key names no worker");
}

Status ServerProcessor::Check(const Gradient& message) const {
  if (message.epoch() != options_.epoch) {
    return absl::InvalidArgumentError("epoch " + std::to_string(message.epoch()) +
                                      " where this job is in epoch " +
                                      std::to_string(options_.epoch));
  }
  const bool is_request =
      message.kind() == Gradient::SNAPSHOT || message.kind() == Gradient::CANCEL;
  if (message.job() != options_.job && !is_request) {
    return absl::InvalidArgumentError("a message of another job");
  }
  if (!Gradient::Kind_IsValid(message.kind())) {
    return absl::InvalidArgumentError("a message of an unknown kind");
  }
  MILLRACE_RETURN_IF_ERROR(CheckEmbeddingParts(message));
  if (message.kind() == Gradient::RESTORE && message.has_slice()) {
    MILLRACE_RETURN_IF_ERROR(CheckSlice(message.slice(), options_.range));
    if (static_cast<size_t>(message.slice().dense_size()) != options_.range.size()) {
      return absl::InvalidArgumentError("a copy of weights that are not all there");
    }
    return CheckMoments(message.moments(), options_.numeric_columns);
  }
  if (message.kind() != Gradient::UPDATE) return absl::OkStatus();
  if (message.row_count() > 0) {
    MILLRACE_RETURN_IF_ERROR(CheckSlice(message.slice(), options_.range));
  }
  MILLRACE_RETURN_IF_ERROR(CheckSums(message.progressive(), options_.classes));
  MILLRACE_RETURN_IF_ERROR(CheckSums(message.tail(), options_.classes));
  return CheckMoments(message.moments(), options_.numeric_columns);
}

Status ServerProcessor::CheckEmbeddingParts(const Gradient& message) const {
  const bool has_rows = message.embeddings().id_size() > 0 || message.embeddings().value_size() > 0;
  if (embeddings_ == nullptr) {
    if (!has_rows && message.wanted_size() == 0) return absl::OkStatus();
    return absl::InvalidArgumentError("embedding rows, of which this job has none");
  }
  if (has_rows && message.row_count() == 0) {
    return absl::InvalidArgumentError("embedding rows of a message without training rows");
  }
  MILLRACE_RETURN_IF_ERROR(CheckIds(message.wanted(), options_.shard, options_.shards));
  return CheckEmbeddings(message.embeddings(), embeddings_->width(), options_.shard,
                         options_.shards);
}

void ServerProcessor::HandleAsk(const Gradient& message, ServerOutput& output) {
  const WorkerId worker = message.worker();
  const bool replaced = KeepsPreviousRound() && message.has_clock() && !clocks_.left(worker) &&
                        message.clock() + 1 == clocks_.clock(worker);
  if (replaced) {
    output.replaced_answers.push_back({worker, {message.wanted().begin(), message.wanted().end()}});
    return;
  }
  // What a zombie wanted at another clock is of no use.
  const bool present = !message.has_clock() || message.clock() == clocks_.clock(worker);
  if (present && message.wanted_size() > 0) {
    members_.at(worker).wanted.assign(message.wanted().begin(), message.wanted().end());
  }
  output.answers.push_back(worker);
}

Status ServerProcessor::Handle(Gradient message, const GradientRecord& record,
                               ServerOutput& output) {
  if (message.kind() == Gradient::SNAPSHOT || message.kind() == Gradient::CANCEL) {
    HandleSnapshot(message, output);
    return absl::OkStatus();
  }
  const WorkerId worker = message.worker();
  if (state_lost_) {
    HandleWhileLost(std::move(message), output);
    return absl::OkStatus();
  }
  if (message.kind() == Gradient::RESTORE) {  // it is too late for that
    output.answers.push_back(worker);
    return absl::OkStatus();
  }
  if (message.kind() == Gradient::ASK) {
    HandleAsk(message, output);
    return absl::OkStatus();
  }
  Member& member = members_.at(worker);
  const bool current = message.clock() == clocks_.clock(worker) && !clocks_.left(worker);
  if (!current || member.pending) {
    if (message.kind() == Gradient::UPDATE) {
      counters_.set_duplicates_ignored(counters_.duplicates_ignored() + 1);
    }
    // A repeat of what is held for the round: the answer comes when the round is complete.
    if (!current) output.answers.push_back(worker);
    return absl::OkStatus();
  }
  seen_ms_ = std::max(seen_ms_, record.timestamp_ms);
  if (message.kind() == Gradient::LEAVE) {
    const std::vector<WorkerId> released = ReleasedWorkers();
    cut_.Note(message);
    clocks_.Leave(worker);
    CountDeadLetters(message, output);
    output.answers.push_back(worker);
    if (options_.consistency.sequential()) {
      MILLRACE_RETURN_IF_ERROR(TryFinishRound(output));
    } else {
      AnswerNewlyReleased(released, output);
    }
    CheckCut(output);
    return absl::OkStatus();
  }
  DropNonFiniteUpdate(message, record, output);
  return HandleUpdate(std::move(message), output);
}

void ServerProcessor::HandleWhileLost(Gradient message, ServerOutput& output) {
  const WorkerId worker = message.worker();
  if (message.kind() != Gradient::RESTORE) {
    output.answers.push_back(worker);  // which asks it
    return;
  }
  if (!IsSane(message)) message.clear_slice();
  std::optional<Gradient>& said = members_.at(worker).restore;
  // Of two that believe to be this worker the one counts that knows more; weights of the other are
  // better than none.
  const auto knows = [](const Gradient& one) {
    return std::make_tuple(one.has_clock(), one.clock(), one.left(), one.has_slice());
  };
  if (said && knows(message) < knows(*said)) std::swap(*said, message);
  if (said && said->has_slice() && !message.has_slice() && !message.left()) {
    message.mutable_slice()->Swap(said->mutable_slice());
    message.mutable_moments()->Swap(said->mutable_moments());
    *message.mutable_rows() = said->rows();
    *message.mutable_rows_before() = said->rows_before();
  }
  said = std::move(message);
  for (const auto& [id, member] : members_) {
    if (!member.restore) return;
  }
  if (!TryRestore()) return;
  for (const auto& [id, member] : members_) output.answers.push_back(id);
}

// In a sequential job all that have not left stand at the newest clock that anybody knows: a round
// that somebody was told the end of was everybody's. (An update of it that is said again is old;
// what was sent behind it is said again.) In others each stands where it says, and of whom nobody
// knows it at the least of the others.
bool ServerProcessor::TryRestore() {
  const Gradient* newest = nullptr;
  std::optional<Clock> least;
  for (const auto& [worker, member] : members_) {
    const Gradient& said = *member.restore;
    if (said.has_clock() && !said.left())
      least = std::min(least.value_or(said.clock()), said.clock());
    if (!said.has_slice()) continue;
    if (newest == nullptr || said.clock() > newest->clock()) newest = &said;
  }
  if (newest == nullptr) return false;
  std::ranges::fill(shard_.mutable_weights(), 0.0f);
  AddSlice(newest->slice(), 1.0f, shard_.mutable_weights());
  shard_.MarkAllUpdated();
  if (newest->moments().count_size() > 0) moments_ = FromProto(newest->moments());
  if (KeepsPreviousRound()) {
    shard_.KeepReplaced();
    replaced_moments_ = moments_;
  }
  steps_ = newest->clock();
  for (auto& [worker, member] : members_) {
    const Gradient& said = *member.restore;
    const bool left = said.has_clock() && said.left();
    Clock clock = said.has_clock() ? said.clock() : least.value_or(newest->clock());
    if (options_.consistency.sequential() && !left) clock = newest->clock();
    clocks_.Set(worker, {clock, left});
    member.rows = said.rows();
    member.rows_before = said.rows_before();
  }
  for (auto& [worker, member] : members_) member.restore.reset();
  state_lost_ = false;
  return true;
}

void ServerProcessor::DropNonFiniteUpdate(Gradient& message, const GradientRecord& record,
                                          ServerOutput& output) {
  if (IsSane(message)) return;
  CountNonFiniteUpdate();
  output.dead_letters.push_back(MakeDeadLetter(
      record, options_.shard,
      "an update with a NaN, an infinity or a value beyond 1e18; it counts as an empty one"));
  Gradient empty;
  empty.set_job(message.job());
  empty.set_epoch(message.epoch());
  empty.set_worker(message.worker());
  empty.set_clock(message.clock());
  empty.set_kind(Gradient::UPDATE);
  empty.set_rows_end(message.rows_end());
  empty.set_buffer_rows(message.buffer_rows());
  empty.set_snapshot(message.snapshot());
  empty.set_cut(message.cut());
  empty.mutable_dead_letters()->Swap(message.mutable_dead_letters());
  empty.mutable_wanted()->Swap(message.mutable_wanted());
  message = std::move(empty);
}

Status ServerProcessor::HandleUpdate(Gradient message, ServerOutput& output) {
  counters_.set_gradients_accepted(counters_.gradients_accepted() + 1);
  const WorkerId worker = message.worker();
  if (options_.consistency.sequential()) {
    cut_.Note(message);
    members_.at(worker).pending = std::move(message);
    MILLRACE_RETURN_IF_ERROR(TryFinishRound(output));
  } else if (cut_.IsBehind(worker, clocks_.clock(worker))) {
    members_.at(worker).pending = std::move(message);
    return absl::OkStatus();
  } else {
    MILLRACE_RETURN_IF_ERROR(TakeUpdate(message, output));
  }
  CheckCut(output);
  return absl::OkStatus();
}

Status ServerProcessor::TakeUpdate(const Gradient& message, ServerOutput& output) {
  cut_.Note(message);
  const WorkerId worker = message.worker();
  const std::vector<WorkerId> released = ReleasedWorkers();
  size_t present = 0;
  for (const auto& [id, entry] : clocks_.entries()) present += entry.left ? 0 : 1;
  step_ms_ = seen_ms_;
  MILLRACE_RETURN_IF_ERROR(Apply({&message}, present));
  Count(message, output);
  clocks_.Advance(worker);
  if (Released(worker)) output.answers.push_back(worker);
  std::vector<WorkerId> before = released;
  before.push_back(worker);
  AnswerNewlyReleased(before, output);
  return absl::OkStatus();
}

void ServerProcessor::HandleSnapshot(const Gradient& message, ServerOutput& output) {
  if (state_lost_) return;
  if (message.kind() == Gradient::CANCEL) {
    // (Whose cut the shard has left already may be whole all the same.)
    if (cut_.open() == message.snapshot() || message.snapshot() > cut_.newest()) {
      snapshot_given_up_ = std::max(snapshot_given_up_, message.snapshot());
    }
    cut_.Cancel(message.snapshot());
    return;
  }
  if (options_.shard != 0 || message.snapshot() == cut_.newest()) return;
  if (!cut_.Begin(message.snapshot(), clocks_)) {
    snapshot_given_up_ = std::max(snapshot_given_up_, message.snapshot());
    return;
  }
  for (const auto& [worker, member] : members_) {
    if (!clocks_.left(worker)) output.answers.push_back(worker);
  }
}

void ServerProcessor::CheckCut(ServerOutput& output) {
  if (const std::optional<uint64_t> snapshot = cut_.Reach(clocks_)) output.snapshot = snapshot;
}

Status ServerProcessor::LeaveCut(ServerOutput& output) {
  cut_.Leave();
  if (options_.consistency.sequential()) return absl::OkStatus();  // rounds are held as ever
  for (auto& [worker, member] : members_) {
    if (!member.pending) continue;
    const Gradient message = std::move(*std::exchange(member.pending, std::nullopt));
    MILLRACE_RETURN_IF_ERROR(TakeUpdate(message, output));
  }
  return absl::OkStatus();
}

Status ServerProcessor::TryFinishRound(ServerOutput& output) {
  std::vector<WorkerId> round;
  std::vector<const Gradient*> messages;
  for (auto& [worker, member] : members_) {
    if (clocks_.left(worker)) continue;
    if (!member.pending) return absl::OkStatus();
    round.push_back(worker);
    messages.push_back(&*member.pending);
  }
  if (round.empty()) return absl::OkStatus();
  if (KeepsPreviousRound()) {
    shard_.KeepReplaced();
    replaced_moments_ = moments_;
    replaced_ids_.clear();
    replaced_rows_.clear();
    replaced_step_ms_ = step_ms_;
  }
  step_ms_ = seen_ms_;
  MILLRACE_RETURN_IF_ERROR(Apply(messages, 0));
  for (const Gradient* message : messages) Count(*message, output);
  for (WorkerId worker : round) {
    members_.at(worker).pending.reset();
    clocks_.Advance(worker);
    output.answers.push_back(worker);
  }
  return absl::OkStatus();
}

Status ServerProcessor::Apply(const std::vector<const Gradient*>& messages, size_t average_over) {
  double weight = 0;
  for (const Gradient* message : messages) {
    if (message->row_count() > 0) weight += message->weight_sum();
  }
  if (weight <= 0) return absl::OkStatus();  // a round of nobody makes no step
  std::fill(sum_.begin(), sum_.end(), 0.0f);
  const std::span<float> weights = shard_.mutable_weights();
  if (options_.average_changes) {
    // Federated averaging (McMahan et al., AISTATS 2017): each change by its share of the rows; a
    // change that comes alone moves the weights by its worker's share.
    for (const Gradient* message : messages) {
      if (message->row_count() == 0) continue;
      const double share = average_over > 0 ? 1.0 / static_cast<double>(average_over)
                                            : message->weight_sum() / weight;
      AddSlice(message->slice(), static_cast<float>(share), sum_);
    }
    if (!AllFinite(sum_)) {  // sane changes may still overflow together
      CountNonFiniteUpdate();
      return absl::OkStatus();
    }
    for (size_t i = 0; i < sum_.size(); ++i) weights[i] += sum_[i];
  } else {
    for (const Gradient* message : messages) {
      if (message->row_count() > 0) AddSlice(message->slice(), 1.0f, sum_);
    }
    const auto scale = static_cast<float>(1.0 / weight);
    for (float& value : sum_) value *= scale;
    if (options_.l2 > 0) {
      const auto l2 = static_cast<float>(options_.l2);
      for (size_t i = 0; i < parts_.penalised_end; ++i) sum_[i] += l2 * weights[i];
    }
    if (embeddings_ != nullptr) SumEmbeddings(messages, scale);
    if (!AllFinite(sum_) || !AllFinite(row_sum_)) {  // divided by a tiny weight, say
      CountNonFiniteUpdate();
      return absl::OkStatus();
    }
    optimizer_->Step(steps_, sum_, weights, shard_.mutable_slots(), parts_);
    if (embeddings_ != nullptr) MILLRACE_RETURN_IF_ERROR(StepEmbeddings());
  }
  ++steps_;
  shard_.MarkAllUpdated();
  return absl::OkStatus();
}

void ServerProcessor::SumEmbeddings(const std::vector<const Gradient*>& messages, float scale) {
  row_ids_.clear();
  for (const Gradient* message : messages) {
    const auto& ids = message->embeddings().id();
    row_ids_.insert(row_ids_.end(), ids.begin(), ids.end());
  }
  if (messages.size() > 1) {
    std::ranges::sort(row_ids_);
    row_ids_.erase(std::ranges::unique(row_ids_).begin(), row_ids_.end());
  }
  const size_t width = embeddings_->width();
  row_sum_.assign(row_ids_.size() * width, 0.0f);
  for (const Gradient* message : messages) {
    const auto& ids = message->embeddings().id();
    const float* value = message->embeddings().value().data();
    size_t place = 0;
    for (int i = 0; i < ids.size(); ++i, value += width) {
      while (row_ids_[place] != ids[i]) ++place;
      float* const sum = row_sum_.data() + place * width;
      for (size_t k = 0; k < width; ++k) sum[k] += value[k];
    }
  }
  for (float& value : row_sum_) value *= scale;
}

Status ServerProcessor::StepEmbeddings() {
  if (KeepsPreviousRound()) {
    replaced_ids_ = row_ids_;
    replaced_rows_.resize(row_sum_.size());
    MILLRACE_RETURN_IF_ERROR(embeddings_->Read(row_ids_, replaced_step_ms_, replaced_rows_));
  }
  return embeddings_->Update(
      row_ids_, row_sum_, step_ms_,
      [this](std::span<const float> gradient, std::span<float> values, std::span<float> slots) {
        optimizer_->Step(steps_, gradient, values, slots, kPartsOfRow);
      });
}

void ServerProcessor::Count(const Gradient& message, ServerOutput& output) {
  Member& member = members_.at(message.worker());
  member.rows_before = member.rows;
  const bool new_rows = message.rows_end() > member.rows.end();
  member.rows.set_updates_without_rows(new_rows ? 0 : member.rows.updates_without_rows() + 1);
  // Shards may take different attempts of a clock; only shard 0's word counts, and never goes back.
  member.rows.set_end(std::max(member.rows.end(), message.rows_end()));
  member.buffer_rows = message.buffer_rows();
  member.wanted.assign(message.wanted().begin(), message.wanted().end());
  if (message.progressive().rows() > 0) progressive_.Merge(FromProto(message.progressive()));
  if (message.tail().rows() > 0) tail_.Merge(FromProto(message.tail()));
  if (message.moments().count_size() > 0) {
    Moments merged = moments_;
    merged.Merge(FromProto(message.moments()));
    if (merged.IsValid()) moments_ = std::move(merged);
  }
  rows_trained_ += message.new_rows();
  if (message.row_count() > 0) train_loss_ = message.train_loss();
  CountDeadLetters(message, output);
}

void ServerProcessor::CountDeadLetters(const Gradient& message, ServerOutput& output) {
  for (const DeadLetter& letter : message.dead_letters()) {
    counters_.set_undecodable_rows(counters_.undecodable_rows() + 1);
    output.dead_letters.push_back(letter);
  }
}

std::vector<WorkerId> ServerProcessor::ReleasedWorkers() const {
  std::vector<WorkerId> released;
  for (const auto& [worker, entry] : clocks_.entries()) {
    if (Released(worker)) released.push_back(worker);
  }
  return released;
}

void ServerProcessor::AnswerNewlyReleased(const std::vector<WorkerId>& before,
                                          ServerOutput& output) const {
  for (WorkerId worker : ReleasedWorkers()) {
    if (std::find(before.begin(), before.end(), worker) == before.end()) {
      output.answers.push_back(worker);
    }
  }
}

StatusOr<std::string> ServerProcessor::Answer(WorkerId worker) const {
  return MakeAnswer(worker, false, members_.at(worker).wanted);
}

StatusOr<std::string> ServerProcessor::ReplacedAnswer(
    const ServerOutput::Replaced& receiver) const {
  return MakeAnswer(receiver.worker, true, receiver.wanted);
}

StatusOr<std::string> ServerProcessor::MakeAnswer(WorkerId worker, bool replaced,
                                                  std::span<const EmbeddingId> wanted) const {
  const Member& member = members_.at(worker);
  Weights message;
  message.set_job(options_.job);
  message.set_epoch(options_.epoch);
  message.set_shard(options_.shard);
  if (state_lost_) {
    message.set_lost(true);
    return message.SerializeAsString();
  }
  message.set_clock(clocks_.clock(worker) - (replaced ? 1 : 0));
  message.set_replaced(replaced);
  message.set_left(clocks_.left(worker));
  message.set_released(Released(worker));
  const bool has_weights = message.released() && !message.left();
  if (has_weights) {
    if (options_.shard == 0) {
      ToProto(replaced ? replaced_moments_ : moments_, *message.mutable_moments());
    }
    if (embeddings_ != nullptr && !wanted.empty()) {
      MILLRACE_RETURN_IF_ERROR(ReadEmbeddings(wanted, replaced, *message.mutable_embeddings()));
    }
  }
  if (options_.shard == 0) cut_.Tell(worker, message);
  *message.mutable_rows() = replaced ? member.rows_before : member.rows;
  if (!replaced) *message.mutable_rows_before() = member.rows_before;
  if (!has_weights) return message.SerializeAsString();
  return SerializeWithDenseSlice(message, Weights::kSliceFieldNumber,
                                 replaced ? shard_.replaced() : shard_.weights(), options_.range);
}

Status ServerProcessor::ReadEmbeddings(std::span<const EmbeddingId> ids, bool replaced,
                                       EmbeddingBlock& block) const {
  const size_t width = embeddings_->width();
  block.mutable_id()->Add(ids.begin(), ids.end());
  block.mutable_value()->Resize(static_cast<int>(ids.size() * width), 0.0f);
  const std::span<float> values(block.mutable_value()->mutable_data(), ids.size() * width);
  MILLRACE_RETURN_IF_ERROR(embeddings_->Read(ids, replaced ? replaced_step_ms_ : step_ms_, values));
  if (!replaced) return absl::OkStatus();
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto found = std::ranges::lower_bound(replaced_ids_, ids[i]);
    if (found == replaced_ids_.end() || *found != ids[i]) continue;
    const auto place = static_cast<size_t>(found - replaced_ids_.begin());
    std::copy_n(replaced_rows_.begin() + static_cast<ptrdiff_t>(place * width), width,
                values.begin() + static_cast<ptrdiff_t>(i * width));
  }
  return absl::OkStatus();
}

std::vector<WorkerId> ServerProcessor::WaitedFor() const {
  std::vector<WorkerId> missing;
  if (state_lost_) {
    for (const auto& [worker, member] : members_) {
      if (!member.restore) missing.push_back(worker);
    }
    return missing;
  }
  bool someone = false;
  for (const auto& [worker, member] : members_) {
    if (clocks_.left(worker)) continue;
    if (member.pending) {
      someone = true;
    } else {
      missing.push_back(worker);
    }
  }
  if (!someone) missing.clear();
  return missing;
}

void ServerProcessor::SaveState(ShardState& state) const {
  state.set_epoch(options_.epoch);
  state.set_shard(options_.shard);
  state.set_steps(steps_);
  state.set_lost(state_lost_);
  for (const auto& [worker, member] : members_) {
    ShardState::Member& saved = *state.add_members();
    saved.set_worker(worker);
    saved.set_clock(clocks_.clock(worker));
    saved.set_left(clocks_.left(worker));
    *saved.mutable_rows() = member.rows;
    *saved.mutable_rows_before() = member.rows_before;
    saved.set_buffer_rows(member.buffer_rows);
    saved.mutable_wanted()->Add(member.wanted.begin(), member.wanted.end());
    if (member.pending) *saved.mutable_pending() = *member.pending;
    if (member.restore) *state.add_restoring() = *member.restore;
    for (const ChunkJoiner::Partial& partial : member.joiner.partials()) {
      ShardState::PartialMessage& chunks = *state.add_partial();
      chunks.set_worker(worker);
      chunks.set_message_id(partial.message_id);
      chunks.set_count(partial.count);
      for (const std::string_view chunk : partial.Chunks()) chunks.add_chunk(std::string(chunk));
    }
  }
  ToProto(moments_, *state.mutable_moments());
  if (KeepsPreviousRound()) ToProto(replaced_moments_, *state.mutable_replaced_moments());
  if (embeddings_ != nullptr) {
    EmbeddingBlock& replaced = *state.mutable_replaced_embeddings();
    replaced.mutable_id()->Add(replaced_ids_.begin(), replaced_ids_.end());
    replaced.mutable_value()->Add(replaced_rows_.begin(), replaced_rows_.end());
    state.set_seen_ms(seen_ms_);
    state.set_step_ms(step_ms_);
    state.set_replaced_step_ms(replaced_step_ms_);
  }
  ToProto(progressive_, *state.mutable_progressive());
  ToProto(tail_, *state.mutable_tail());
  state.set_rows_trained(rows_trained_);
  state.set_train_loss(train_loss_);
  *state.mutable_counters() = counters_;
  cut_.Save(state);
}

Status ServerProcessor::LoadState(const ShardState& state) {
  if (state.epoch() != options_.epoch || state.shard() != options_.shard ||
      static_cast<uint32_t>(state.members_size()) != options_.workers ||
      static_cast<size_t>(state.moments().count_size()) != options_.numeric_columns) {
    return absl::DataLossError("the saved state is of epoch " + std::to_string(state.epoch()) +
                               ", shard " + std::to_string(state.shard()) + ", " +
                               std::to_string(state.members_size()) + " workers and " +
                               std::to_string(state.moments().count_size()) +
                               " numeric columns: it belongs to another job");
  }
  for (const ShardState::Member& saved : state.members()) {
    if (!members_.contains(saved.worker())) {
      return absl::DataLossError("the saved state names worker " + std::to_string(saved.worker()));
    }
    clocks_.Set(saved.worker(), {saved.clock(), saved.left()});
    Member& member = members_.at(saved.worker());
    member.rows = saved.rows();
    member.rows_before = saved.rows_before();
    member.buffer_rows = saved.buffer_rows();
    member.wanted.assign(saved.wanted().begin(), saved.wanted().end());
    member.pending.reset();
    if (saved.has_pending()) member.pending = saved.pending();
    std::vector<ChunkJoiner::Partial> partials;
    for (const ShardState::PartialMessage& chunks : state.partial()) {
      if (chunks.worker() != saved.worker()) continue;
      ChunkJoiner::Partial& partial = partials.emplace_back(chunks.message_id(), chunks.count());
      for (const std::string& chunk : chunks.chunk()) partial.Append(chunk);
    }
    member.joiner.Restore(std::move(partials));
  }
  state_lost_ = state.lost();
  for (const Gradient& said : state.restoring()) {
    if (members_.contains(said.worker())) members_.at(said.worker()).restore = said;
  }
  moments_ = FromProto(state.moments());
  if (KeepsPreviousRound()) replaced_moments_ = FromProto(state.replaced_moments());
  const EmbeddingBlock& replaced = state.replaced_embeddings();
  replaced_ids_.assign(replaced.id().begin(), replaced.id().end());
  replaced_rows_.assign(replaced.value().begin(), replaced.value().end());
  seen_ms_ = state.seen_ms();
  step_ms_ = state.step_ms();
  replaced_step_ms_ = state.replaced_step_ms();
  progressive_ = FromProto(state.progressive());
  tail_ = FromProto(state.tail());
  rows_trained_ = state.rows_trained();
  steps_ = state.steps();
  train_loss_ = state.train_loss();
  counters_ = state.counters();
  cut_.Load(state);
  return absl::OkStatus();
}

}  // namespace millrace
