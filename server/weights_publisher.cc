#include "server/weights_publisher.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace millrace {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kWeightsEvery(20);
constexpr std::chrono::minutes kUnchangedWeightsEvery(4);
constexpr double kPublishedBytesPerSecond = 10e6;  // of large ones, at most

}  // namespace

Status WeightsPublisher::Tick(Time now, AnswerWays& ways) {
  if (now < next_) return absl::OkStatus();
  if (now >= next_unchanged_) {
    next_unchanged_ = now + kUnchangedWeightsEvery;
    for (const auto& [shard, hosted] : shards_) hosted->task().PublishWeightsAgain();
  }
  MarkUnpublished(ways);
  bool is_sent = false;
  size_t values = 0;
  for (auto& [shard, feed] : feeds_) {
    MILLRACE_ASSIGN_OR_RETURN(const bool has_changed, feed.PublishWeights(answers_));
    if (!has_changed) continue;
    is_sent = true;
    values += shards_.at(shard)->task().processor().shard().range().size();
  }
  if (!is_sent) return absl::OkStatus();
  const milliseconds pause(static_cast<int64_t>(1000 * sizeof(float) * static_cast<double>(values) /
                                                kPublishedBytesPerSecond));
  next_ = now + std::max<milliseconds>(kWeightsEvery, pause);
  return absl::OkStatus();
}

Status WeightsPublisher::PublishLast(AnswerWays& ways) {
  MarkUnpublished(ways);
  for (auto& [shard, feed] : feeds_) {
    MILLRACE_RETURN_IF_ERROR(feed.PublishWeights(answers_).status());
  }
  return absl::OkStatus();
}

void WeightsPublisher::MarkUnpublished(AnswerWays& ways) {
  for (const ShardId shard : ways.TakeUnpublished()) {
    shards_.at(shard)->task().PublishWeightsAgain();
  }
}

}  // namespace millrace
