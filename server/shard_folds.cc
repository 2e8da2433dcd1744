#include "server/shard_folds.h"

#include <utility>

namespace millrace {
namespace {

constexpr size_t kMostKeptBytes = size_t{32} << 20;

}  // namespace

ShardFolds::ShardFolds(std::map<ShardId, ShardFeed>& feeds, RecordSink answers)
    : feeds_(feeds), answers_([this, answers = std::move(answers)](OutgoingRecord record) {
        const std::lock_guard<std::mutex> lock(mutex_);
        return answers(std::move(record));
      }) {}

Status ShardFolds::Take(ShardId shard, const GradientRecord& record) {
  if (feeds_.size() == 1) return feeds_.at(shard).Take(record, answers_);
  kept_[shard].push_back(
      {record.offset, std::string(record.key), std::string(record.value), record.timestamp_ms});
  kept_bytes_ += record.value.size();
  if (kept_bytes_ > kMostKeptBytes) return Fold();
  return absl::OkStatus();
}

Status ShardFolds::Fold() {
  MILLRACE_RETURN_IF_ERROR(failed_);
  kept_bytes_ = 0;
  std::vector<ShardId> shards;
  for (const auto& [shard, kept] : kept_) {
    if (!kept.empty()) shards.push_back(shard);
  }
  return EachOf(shards, [this](ShardId shard) { return FoldKept(shard); });
}

Status ShardFolds::AnswerDue() {
  std::vector<ShardId> shards;
  for (const auto& [shard, feed] : feeds_) {
    if (feed.owes_answers()) shards.push_back(shard);
  }
  return EachOf(shards, [this](ShardId shard) { return feeds_.at(shard).AnswerDue(answers_); });
}

Status ShardFolds::FoldKept(ShardId shard) {
  ShardFeed& feed = feeds_.at(shard);
  const std::vector<Kept> kept = std::exchange(kept_.at(shard), {});
  for (const Kept& record : kept) {
    MILLRACE_RETURN_IF_ERROR(
        feed.Take({record.offset, record.key, record.value, record.timestamp_ms}, answers_));
  }
  return absl::OkStatus();
}

Status ShardFolds::EachOf(const std::vector<ShardId>& shards,
                          const std::function<Status(ShardId)>& job) {
  std::vector<Status> done(shards.size());
  threads_.Run(shards.size(), [&](size_t i) { done[i] = job(shards[i]); });
  for (Status& status : done) MILLRACE_RETURN_IF_ERROR(std::move(status));
  return absl::OkStatus();
}

}  // namespace millrace
