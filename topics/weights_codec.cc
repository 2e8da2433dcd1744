#include "topics/weights_codec.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "base/check.h"
#include "topics/figures_codec.h"
#include "topics/gradient_codec.h"
#include "topics/message_codec.h"
#include "topics/partitioning.h"
#include "topics/slice_codec.h"
#include "topics/topics.h"

namespace millrace {
namespace {

Status BadWeights(const std::string& reason) { return absl::InvalidArgumentError(reason); }

// A worker gives it back to a shard that has lost its state, which goes on from there.
constexpr uint64_t kMostAnswered = kMostClock / 2;

// Rows are never uncounted.
template <typename AnyAnswer>
Status CheckRowsBefore(const AnyAnswer& message, bool previous_round, size_t pipeline) {
  if (static_cast<size_t>(message.rows_before_size()) > pipeline) {
    return BadWeights("weights with the rows of " + std::to_string(message.rows_before_size()) +
                      " updates, of which " + std::to_string(pipeline) + " can be in flight");
  }
  uint64_t end = previous_round ? kMostRow : message.rows().end();
  for (const RowProgress& before : message.rows_before()) {
    MILLRACE_RETURN_IF_ERROR(CheckProgress(before));
    if (before.end() > end) {
      return BadWeights("weights with " + std::to_string(end) + " rows counted, and " +
                        std::to_string(before.end()) +
                        " one update before: rows are never uncounted");
    }
    end = before.end();
  }
  return absl::OkStatus();
}

// What a worker gives back to a shard that has lost its state must be what the shard takes.
// AnyAnswer is Weights or SharedWeights::Answer.
template <typename AnyAnswer>
Status CheckClocks(const AnyAnswer& message, bool previous_round, uint64_t min_clock,
                   size_t pipeline) {
  const SnapshotMark& mark = message.mark();
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("clock", message.clock(), kMostAnswered));
  MILLRACE_RETURN_IF_ERROR(CheckProgress(message.rows()));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("snapshot", mark.snapshot(), kMostSnapshot));
  if (!message.left() && min_clock > message.clock()) {
    return BadWeights("weights of clock " + std::to_string(message.clock()) +
                      ", though no worker is below clock " + std::to_string(min_clock));
  }
  MILLRACE_RETURN_IF_ERROR(CheckRowsBefore(message, previous_round, pipeline));
  // The shard fixes a cut pipeline + 1 updates after where the worker stands.
  const Clock stands(message.clock() + (previous_round ? 1 : 0));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("shards:", mark.next_shards(), kMostShards));
  if (mark.snapshot() == 0 && mark.next_shards() == 0 && mark.cut() > 0) {
    return BadWeights("a cut at clock " + std::to_string(mark.cut()) + " of no snapshot");
  }
  if (mark.cut() <= stands + pipeline + 1) return absl::OkStatus();
  return BadWeights("a cut at clock " + std::to_string(mark.cut()) + " of a worker at clock " +
                    std::to_string(stands) + ": a cut is " + std::to_string(pipeline + 1) +
                    " clocks ahead at most");
}

Status CheckNoValues(const Weights& message) {
  const bool has_values = message.has_slice() || message.has_moments() ||
                          message.has_embeddings() || message.has_shared() ||
                          message.has_values_size() > 0;
  if (!has_values) return absl::OkStatus();
  return BadWeights(
      "values in an answer to a worker that is held back or has left: such an answer has none");
}

// Of named parameters: a number that stands there twice would count for another shard.
Status CheckNumbers(const google::protobuf::RepeatedField<uint32_t>& has_values) {
  if (std::ranges::adjacent_find(has_values, std::greater_equal<>()) == has_values.end()) {
    return absl::OkStatus();
  }
  return BadWeights("parameters with values out of order");
}

Status CheckDense(const Slice& slice, const MomentsMessage* moments, ShardId shard,
                  const WeightsShape& shape) {
  const KeyRange range = RangeOfShard(shard, shape.shards, shape.parameters);
  MILLRACE_RETURN_IF_ERROR(CheckSlice(slice, range));
  if (static_cast<size_t>(slice.dense_size()) != range.size()) {
    return BadWeights("weights without values");
  }
  if (shard != 0) {
    if (moments == nullptr) return absl::OkStatus();
    return BadWeights("moments of shard " + std::to_string(shard) + ", where shard 0 has them");
  }
  const MomentsMessage none;
  if (moments == nullptr) moments = &none;
  MILLRACE_RETURN_IF_ERROR(
      CheckMoments(*moments, shape.numeric_columns, shape.classes, shape.workers));
  if (static_cast<size_t>(moments->count_size()) == shape.numeric_columns) return absl::OkStatus();
  return BadWeights("moments of " + std::to_string(moments->count_size()) +
                    " columns, but the job has " + std::to_string(shape.numeric_columns) +
                    " numeric columns");
}

template <typename Message>
const MomentsMessage* MomentsOf(const Message& message) {
  return message.has_moments() ? &message.moments() : nullptr;
}

Status CheckValues(const Weights& message, const WeightsShape& shape) {
  const ShardId shard(message.shard());
  if (!message.has_shared()) {
    MILLRACE_RETURN_IF_ERROR(CheckDense(message.slice(), MomentsOf(message), shard, shape));
  } else if (message.has_slice() || message.has_moments() || message.previous_round()) {
    return BadWeights("values beside the name of a shared record that has them");
  }
  MILLRACE_RETURN_IF_ERROR(CheckNumbers(message.has_values()));
  return CheckEmbeddings(message.embeddings(), shape.row_width, shard, shape.shards);
}

template <typename Message>
Status CheckSender(const Message& message, const WeightsShape& shape) {
  if (message.job() != shape.job) return BadWeights("weights of another job");
  if (message.epoch() == shape.epoch && message.shard() < shape.shards) return absl::OkStatus();
  return BadWeights("weights of epoch " + std::to_string(message.epoch()) + ", shard " +
                    std::to_string(message.shard()));
}

Weights ToWeights(const SharedWeights& shared, const SharedWeights::Answer& answer) {
  Weights message;
  message.set_epoch(shared.epoch());
  message.set_shard(shared.shard());
  message.set_job(shared.job());
  message.set_clock(answer.clock());
  message.set_released(answer.released());
  message.set_left(answer.left());
  *message.mutable_rows() = answer.rows();
  *message.mutable_rows_before() = answer.rows_before();
  message.set_min_clock(shared.min_clock());
  *message.mutable_mark() = answer.mark();
  if (!HasWeights(message)) return message;
  message.set_shared(shared.version());
  *message.mutable_has_values() = shared.has_values();
  return message;
}

template <typename Message>
StatusOr<MessageBytes> Serialize(const Message& message, std::span<const float> values,
                                 KeyRange range) {
  MILLRACE_CHECK(!message.has_slice());
  const size_t size =
      message.ByteSizeLong() + DenseSliceFieldBytes(Message::kSliceFieldNumber, range);
  if (size > kMostMessageBytes) return TooLarge(message, size, kMostMessageBytes);
  MILLRACE_ASSIGN_OR_RETURN(MessageBytes bytes, SerializeMessage(message));
  AppendDenseSlice(Message::kSliceFieldNumber, values, range, bytes);
  return bytes;
}

}  // namespace

StatusOr<Weights> DecodeWeights(std::string_view body, const WeightsShape& shape) {
  Weights message;
  MILLRACE_RETURN_IF_ERROR(ParseMessage(body, message));
  MILLRACE_RETURN_IF_ERROR(CheckSender(message, shape));
  if (message.lost()) return message;
  if (message.has_embeddings()) {
    MILLRACE_RETURN_IF_ERROR(ExpandRows(shape.tables, *message.mutable_embeddings()));
  }
  MILLRACE_RETURN_IF_ERROR(
      CheckClocks(message, message.previous_round(), message.min_clock(), shape.pipeline));
  MILLRACE_RETURN_IF_ERROR(HasWeights(message) ? CheckValues(message, shape)
                                               : CheckNoValues(message));
  return message;
}

StatusOr<SharedWeights> DecodeSharedWeights(std::string_view body, const WeightsShape& shape) {
  SharedWeights message;
  MILLRACE_RETURN_IF_ERROR(ParseMessage(body, message));
  MILLRACE_RETURN_IF_ERROR(CheckSender(message, shape));
  MILLRACE_RETURN_IF_ERROR(
      CheckDense(message.slice(), MomentsOf(message), ShardId(message.shard()), shape));
  MILLRACE_RETURN_IF_ERROR(CheckNumbers(message.has_values()));
  const auto& answers = message.answers();
  const bool is_ascending =
      std::ranges::adjacent_find(answers, std::greater_equal(), &SharedWeights::Answer::worker) ==
      answers.end();
  if (!is_ascending || (!answers.empty() && answers.rbegin()->worker() >= shape.workers)) {
    return BadWeights("shared weights with answers that are not to workers of this job, ascending");
  }
  for (const SharedWeights::Answer& answer : answers) {
    MILLRACE_RETURN_IF_ERROR(CheckClocks(answer, false, message.min_clock(), shape.pipeline));
  }
  return message;
}

std::optional<Weights> AnswerFrom(const SharedWeights& shared, WorkerId worker) {
  const auto& answers = shared.answers();
  const auto found = std::ranges::lower_bound(answers, uint32_t{worker}, std::less(),
                                              &SharedWeights::Answer::worker);
  if (found == answers.end() || found->worker() != worker) return std::nullopt;
  return ToWeights(shared, *found);
}

StatusOr<MessageBytes> SerializeWeights(const Weights& message, std::span<const float> values,
                                        KeyRange range) {
  return Serialize(message, values, range);
}

StatusOr<MessageBytes> SerializeWeights(const SharedWeights& message, std::span<const float> values,
                                        KeyRange range) {
  return Serialize(message, values, range);
}

}  // namespace millrace
