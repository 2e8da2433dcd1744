#include "tasks/shard_feed.h"

#include <utility>

#include "base/check.h"

namespace millrace {

Status ShardFeed::Take(const GradientRecord& record, const RecordSink& out) {
  if (at_cut()) {
    has_passed_over_ = true;
    return absl::OkStatus();
  }
  MILLRACE_RETURN_IF_ERROR(task_.Fold(record));
  return task_.owes_previous_answer() ? task_.AnswerDue(out) : absl::OkStatus();
}

StatusOr<std::optional<Offset>> ShardFeed::LeaveCut() {
  MILLRACE_CHECK(at_cut());
  MILLRACE_RETURN_IF_ERROR(task_.LeaveCut());
  const bool has_passed_over = std::exchange(has_passed_over_, false);
  if (std::exchange(lost_connection_, false)) return std::optional(task_.Recheck());
  return has_passed_over ? std::optional(task_.position()) : std::nullopt;
}

std::optional<Offset> ShardFeed::ConnectionLost() {
  if (!at_cut()) return task_.Recheck();
  lost_connection_ = true;
  return std::nullopt;
}

StatusOr<bool> ShardFeed::PublishWeights(const RecordSink& out) {
  if (!task_.replayed() || at_cut()) return false;
  return task_.PublishWeights(out);
}

StatusOr<bool> ShardFeed::Announce(const RecordSink& out) {
  if (is_announced_ || !task_.replayed() || at_cut()) return false;
  MILLRACE_RETURN_IF_ERROR(task_.Announce(out));
  is_announced_ = true;
  return !std::exchange(has_answered_, true);
}

}  // namespace millrace
