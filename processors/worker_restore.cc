// What a worker tells shards that have lost their state, or a part of it.

#include <algorithm>
#include <optional>
#include <utility>

#include "processors/row_history.h"
#include "processors/shard_view.h"
#include "processors/worker_training_processor.h"
#include "topics/weights_codec.h"

namespace millrace {

// An instance to which the shard has said nothing knows from the others where it stands: no shard
// is further ahead of another than updates may be in flight. (In a sequential job it is where
// everybody is.)
void WorkerTrainingProcessor::AnswerLostShards(WorkerOutput& output) {
  const bool others_have_said = std::ranges::all_of(
      parts_, [](const Part& part) { return part.known || part.asked_to_restore; });
  // What a shard goes on from must not be before the rows that are left.
  const std::optional<SourceBegin> begin = source_.begin();
  for (ShardId shard = 0; shard < options_.shards; ++shard) {
    Part& part = parts_[shard];
    if (!part.known && !others_have_said && !IsSequential()) continue;
    if (!begin || !std::exchange(part.asked_to_restore, false)) continue;
    Gradient message = RestoreOf(part, *begin);
    Gradient::Restore& restore = *message.mutable_restore();
    const SharedWeights* values = part.values.get();
    // Values that have not come will not come any more: those of the step before are better than
    // none.
    if (part.LacksValues() && !part.recent.empty()) values = part.recent.back().get();
    const bool has_weights = part.known && HasWeights(*part.message) &&
                             (!part.message->has_shared() || values != nullptr);
    if (has_weights) *restore.mutable_slice() = SliceOf(*part.message, values);
    if (has_weights && shard == 0) *restore.mutable_moments() = MomentsOf(*part.message, values);
    Send(shard, message, output);
  }
}

void WorkerTrainingProcessor::ReportToShardsSetBack(WorkerOutput& output) {
  const std::optional<SourceBegin> begin = source_.begin();
  if (!begin) return;
  for (ShardId shard = 0; shard < options_.shards; ++shard) {
    const Part& part = parts_[shard];
    // That clock, or that leave, may have been made up.
    if (part.known && (!IsBorneOut(part) || IsDoubtful(part))) continue;
    const bool lags = part.known && !part.left && part.clock + options_.pipeline < NewestClock();
    if (part.is_set_back || lags) Send(shard, RestoreOf(part, *begin), output);
  }
}

std::optional<Clock> WorkerTrainingProcessor::LeastClock() const {
  std::optional<Clock> least;
  for (const Part& part : parts_) {
    if (part.known) least = std::min(least.value_or(part.clock), part.clock);
  }
  return least;
}

Clock WorkerTrainingProcessor::NewestClock() const {
  Clock newest = 0;
  for (const Part& part : parts_) {
    if (part.known && IsBorneOut(part)) newest = std::max(newest, part.clock);
  }
  return newest;
}

Gradient WorkerTrainingProcessor::RestoreOf(const Part& part, const SourceBegin& begin) {
  Gradient message = NewMessage();
  Gradient::Restore& restore = *message.mutable_restore();
  restore.set_committed_row(begin.row);
  restore.set_least_clock(begin.clock);
  if (part.known && !IsDoubtful(part)) {
    // No shard may be further behind another.
    const Clock newest = NewestClock();
    const bool lags = !part.left && part.clock + options_.pipeline < newest;
    message.set_clock(lags ? newest - options_.pipeline : part.clock);
    restore.set_left(part.left);
    *restore.mutable_rows() = part.message->rows();
    *restore.mutable_rows_before() = part.message->rows_before();
    for (const uint64_t row : in_flight_.RowsFrom(Clock(message.clock()))) {
      restore.add_sent_rows(row);
    }
  } else if (const std::optional<Clock> least = LeastClock(); least && !IsSequential()) {
    message.set_clock(*least);
  }
  if (!part.known || message.clock() != part.clock) {
    AddRowsOfOthers(restore,
                    message.has_clock() ? Clock(message.clock()) : LeastClock().value_or(Clock(0)));
  }
  return message;
}

void WorkerTrainingProcessor::AddRowsOfOthers(Gradient::Restore& restore, Clock clock) const {
  if (parts_.size() == 1) return;
  // Of those that are at this clock or after it, the nearest.
  const Part* best = nullptr;
  for (const Part& other : parts_) {
    if (!other.known || other.clock < clock || other.clock > clock + options_.pipeline) continue;
    if (best == nullptr || other.clock < best->clock) best = &other;
  }
  if (best == nullptr) return;
  RowHistory::Of(*best->message, options_.pipeline).AsOf(best->clock - clock).SaveTo(restore);
}

}  // namespace millrace
