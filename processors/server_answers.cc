// What a shard answers its workers, made of its state.
#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/distinct_ids.h"
#include "processors/server_processor.h"
#include "topics/figures_codec.h"
#include "topics/message_codec.h"
#include "topics/table_rows.h"
#include "topics/weights_codec.h"

namespace millrace {
namespace {

// Message is Weights or SharedWeights.
template <typename Message>
void SetSender(const ServerOptions& options, Message& message) {
  message.set_job(options.job);
  message.set_epoch(options.epoch);
  message.set_shard(options.shard);
}

}  // namespace

StatusOr<MessageBytes> ServerProcessor::Answer(WorkerId worker,
                                               const AnswerOptions& options) const {
  const std::deque<std::vector<EmbeddingId>>& wanted = members_.at(worker).wanted;
  const size_t requests = std::min(options.requests, wanted.size());
  if (requests == 0) return MakeAnswer(worker, false, {}, options);
  if (requests == 1) return MakeAnswer(worker, false, wanted.back(), options);
  std::vector<EmbeddingId> ids;
  for (size_t i = wanted.size() - requests; i < wanted.size(); ++i) {
    ids.insert(ids.end(), wanted[i].begin(), wanted[i].end());
  }
  SortDistinct(ids);  // requests may name the same rows
  return MakeAnswer(worker, false, ids, options);
}

StatusOr<MessageBytes> ServerProcessor::PreviousAnswer(
    const ServerOutput::PreviousReceiver& receiver) const {
  MILLRACE_CHECK(options_.keeps_previous_round());
  MILLRACE_CHECK(clocks_.clock(receiver.worker) > 0 && !clocks_.left(receiver.worker));
  return MakeAnswer(receiver.worker, true, receiver.wanted, {});
}

bool ServerProcessor::NeedsOwnAnswer(WorkerId worker) const {
  const bool wants =
      std::ranges::any_of(members_.at(worker).wanted, [](const auto& ids) { return !ids.empty(); });
  return embeddings() != nullptr && wants && Released(worker) && !clocks_.left(worker);
}

// (A sequential job waits for all, and an eventual one for nobody.)
Clock ServerProcessor::MinClockToTell() const {
  const bool is_bounded = options_.consistency.bound() && !options_.consistency.sequential();
  return is_bounded ? clocks_.Min().value_or(Clock(0)) : Clock(0);
}

template <typename AnyWeights>
void ServerProcessor::FillParameters(std::optional<Clock> at, AnyWeights& message) const {
  if (model_.parameters() == nullptr) return;
  const std::vector<uint32_t> numbers = model_.parameters()->WithValues(at);
  message.mutable_has_values()->Assign(numbers.begin(), numbers.end());
}

template <typename AnyAnswer>
void ServerProcessor::FillAnswer(WorkerId worker, bool previous_round, AnyAnswer& answer) const {
  answer.set_clock(clocks_.clock(worker) - (previous_round ? 1 : 0));
  answer.set_left(clocks_.left(worker));
  answer.set_released(Released(worker));
  const RowHistory& rows = members_.at(worker).rows;
  if (previous_round) {
    *answer.mutable_rows() = rows.Ago(1);
  } else {
    rows.SaveTo(answer);
  }
  if (options_.shard != 0) return;
  if (const auto last = seal_.Mark(worker)) {
    *answer.mutable_mark() = *last;
  } else if (const auto mark = cut_.Mark(worker)) {
    *answer.mutable_mark() = *mark;
  }
}

StatusOr<MessageBytes> ServerProcessor::SharedAnswer(uint64_t version,
                                                     std::span<const WorkerId> workers) const {
  MILLRACE_CHECK(!lost_);
  SharedWeights message;
  SetSender(options_, message);
  message.set_version(version);
  message.set_min_clock(MinClockToTell());
  FillParameters({}, message);
  if (options_.shard == 0) {
    ToProto(moments_, *message.mutable_moments());
    message.set_rows_trained(rows_trained_);
    message.set_clock(clocks_.Furthest());
  }
  std::optional<WorkerId> last;
  for (const WorkerId worker : workers) {
    MILLRACE_CHECK(!last || *last < worker);
    last = worker;
    if (NeedsOwnAnswer(worker)) continue;
    SharedWeights::Answer& answer = *message.add_answers();
    answer.set_worker(worker);
    FillAnswer(worker, false, answer);
  }
  return WithValues(message, shard().weights());
}

template <typename AnyWeights>
StatusOr<MessageBytes> ServerProcessor::WithValues(const AnyWeights& message,
                                                   std::span<const float> values) const {
  const ShardParameters* const parameters = model_.parameters();
  if (parameters == nullptr) return SerializeWeights(message, values, options_.range);
  const auto changed = std::make_shared<std::vector<float>>();
  MILLRACE_ASSIGN_OR_RETURN(
      MessageBytes bytes,
      SerializeWeights(message, parameters->AsRead(values, *changed), options_.range));
  bytes.Keep(changed);
  return bytes;
}

StatusOr<MessageBytes> ServerProcessor::MakeAnswer(WorkerId worker, bool previous_round,
                                                   std::span<const EmbeddingId> wanted,
                                                   const AnswerOptions& options) const {
  Weights message;
  SetSender(options_, message);
  message.set_answers_to(options.answers_to);
  if (lost_) {
    message.set_lost(true);
    return SerializeMessage(message);
  }
  message.set_previous_round(previous_round);
  message.set_min_clock(MinClockToTell());
  FillAnswer(worker, previous_round, message);
  if (!HasWeights(message)) return SerializeMessage(message);
  FillParameters(previous_round ? std::optional(Clock(message.clock())) : std::nullopt, message);
  if (embeddings() != nullptr && !wanted.empty()) {
    MILLRACE_RETURN_IF_ERROR(ReadEmbeddings(wanted, previous_round, *message.mutable_embeddings()));
  }
  if (options.shared) {
    message.set_shared(*options.shared);
    return SerializeMessage(message);
  }
  if (options_.shard == 0) {
    ToProto(previous_round ? previous_.moments() : moments_, *message.mutable_moments());
  }
  return WithValues(message, previous_round ? shard().previous_round() : shard().weights());
}

Status ServerProcessor::ReadEmbeddings(std::span<const EmbeddingId> ids, bool previous_round,
                                       EmbeddingBlock& block) const {
  const size_t width = embeddings()->width();
  block.mutable_id()->Add(ids.begin(), ids.end());
  block.mutable_value()->Resize(static_cast<int>(ids.size() * width), 0.0f);
  const std::span<float> values(block.mutable_value()->mutable_data(), ids.size() * width);
  MILLRACE_RETURN_IF_ERROR(
      embeddings()->Read(ids, previous_round ? previous_.row_time() : row_time(), values));
  if (previous_round) previous_.RestoreRows(ids, width, values);
  TrimRows(decoder_.shape().tables, block);
  return absl::OkStatus();
}

}  // namespace millrace
