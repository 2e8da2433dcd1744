#include "topics/weights_codec.h"

#include "base/check.h"
#include "topics/figures_codec.h"
#include "topics/gradient_codec.h"
#include "topics/message_codec.h"
#include "topics/partitioning.h"
#include "topics/slice_codec.h"

namespace millrace {
namespace {

Status BadWeights(const std::string& reason) { return absl::InvalidArgumentError(reason); }

bool IsWithin(const RowProgress& rows) {
  return rows.end() <= kMostRow && rows.updates_without_rows() <= kMostClock;
}

// A worker gives it back to a shard that has lost its state, which goes on from there.
constexpr uint64_t kMostAnswered = kMostClock / 2;

// What a worker gives back to a shard that has lost its state must be what the shard takes.
Status CheckClocks(const Weights& message) {
  const RowProgress& rows = message.rows();
  const RowProgress& before = message.rows_before();
  const SnapshotMark& mark = message.mark();
  if (message.clock() > kMostAnswered || !IsWithin(rows) || !IsWithin(before) ||
      mark.snapshot() > kMostSnapshot) {
    return BadWeights("weights of clock " + std::to_string(message.clock()) + ", of rows up to " +
                      std::to_string(rows.end()) + " and snapshot " +
                      std::to_string(mark.snapshot()) + ": one of them is out of range (at most " +
                      std::to_string(kMostAnswered) + ", " + std::to_string(kMostRow) + " and " +
                      std::to_string(kMostSnapshot) + ")");
  }
  if (!message.previous_round() && before.end() > rows.end()) {
    return BadWeights("weights with " + std::to_string(rows.end()) + " rows counted, and " +
                      std::to_string(before.end()) +
                      " one update before: rows are never uncounted");
  }
  // The shard fixes a cut two updates after where the worker stands.
  const Clock stands(message.clock() + (message.previous_round() ? 1 : 0));
  if (mark.snapshot() == 0 && mark.cut() > 0) {
    return BadWeights("a cut at clock " + std::to_string(mark.cut()) + " of no snapshot");
  }
  if (mark.cut() <= stands + 2) return absl::OkStatus();
  return BadWeights("a cut at clock " + std::to_string(mark.cut()) + " of a worker at clock " +
                    std::to_string(stands) + ": a cut is two clocks ahead at most");
}

Status CheckNoValues(const Weights& message) {
  if (!message.has_slice() && !message.has_moments() && !message.has_embeddings()) {
    return absl::OkStatus();
  }
  return BadWeights(
      "values in an answer to a worker that is held back or has left: such an answer has none");
}

Status CheckValues(const Weights& message, const WeightsShape& shape) {
  const KeyRange range = RangeOfShard(ShardId(message.shard()), shape.shards, shape.parameters);
  MILLRACE_RETURN_IF_ERROR(CheckSlice(message.slice(), range));
  if (static_cast<size_t>(message.slice().dense_size()) != range.size()) {
    return BadWeights("weights without values");
  }
  if (message.shard() == 0) {
    MILLRACE_RETURN_IF_ERROR(CheckMoments(message.moments(), shape.numeric_columns));
    if (static_cast<size_t>(message.moments().count_size()) != shape.numeric_columns) {
      return BadWeights("moments of " + std::to_string(message.moments().count_size()) +
                        " columns, but the job has " + std::to_string(shape.numeric_columns) +
                        " numeric columns");
    }
  } else if (message.has_moments()) {
    return BadWeights("moments of shard " + std::to_string(message.shard()) +
                      ", where shard 0 has them");
  }
  return CheckEmbeddings(message.embeddings(), shape.row_width, ShardId(message.shard()),
                         shape.shards);
}

}  // namespace

StatusOr<Weights> DecodeWeights(std::string_view body, const WeightsShape& shape) {
  Weights message;
  MILLRACE_RETURN_IF_ERROR(ParseMessage(body, message));
  if (message.job() != shape.job) return BadWeights("weights of another job");
  if (message.epoch() != shape.epoch || message.shard() >= shape.shards) {
    return BadWeights("weights of epoch " + std::to_string(message.epoch()) + ", shard " +
                      std::to_string(message.shard()));
  }
  if (message.lost()) return message;
  MILLRACE_RETURN_IF_ERROR(CheckClocks(message));
  MILLRACE_RETURN_IF_ERROR(HasWeights(message) ? CheckValues(message, shape)
                                               : CheckNoValues(message));
  return message;
}

StatusOr<std::string> SerializeWeights(const Weights& message, std::span<const float> values,
                                       KeyRange range) {
  MILLRACE_CHECK(!message.has_slice());
  const size_t size =
      message.ByteSizeLong() + DenseSliceFieldBytes(Weights::kSliceFieldNumber, range);
  if (size > kMostMessageBytes) return TooLarge(message, size, kMostMessageBytes);
  std::string bytes;
  bytes.reserve(size);
  if (!message.AppendToString(&bytes)) return absl::InternalError("weights cannot be serialised");
  AppendDenseSlice(Weights::kSliceFieldNumber, values, range, bytes);
  return bytes;
}

}  // namespace millrace
