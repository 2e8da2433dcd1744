#include "tasks/trainer_task.h"

#include <utility>

#include "base/check.h"
#include "tasks/update_frames.h"
#include "topics/partitioning.h"

namespace millrace {
namespace {

std::vector<KeyRange> RangesOfShards(uint32_t shards, uint64_t keys) {
  std::vector<KeyRange> ranges;
  for (ShardId shard = 0; shard < shards; ++shard) {
    ranges.push_back(RangeOfShard(shard, shards, keys));
  }
  return ranges;
}

}  // namespace

TrainerTask::TrainerTask(const WorkerOptions& options, const Model& model,
                         std::vector<KeyRange> keys, uint64_t attempt)
    : model_(model),
      steps_(std::move(keys), options.tables,
             RangesOfShards(options.shards, model.parameter_count())),
      joiner_(options.shards) {
  Begin(options, attempt);
}

void TrainerTask::Begin(const WorkerOptions& options, uint64_t attempt) {
  options_ = options;
  training_.emplace(options_, model_, steps_, attempt << 20);
  joiner_ = WeightsJoiner(options.shards);
  next_message_id_ = attempt << 20;
}

void TrainerTask::GoOver(const WorkerOptions& options, uint64_t attempt) {
  MILLRACE_CHECK(options.worker == options_.worker);
  steps_.GoOver(RangesOfShards(options.shards, model_.parameter_count()));
  Begin(options, attempt);
}

void TrainerTask::Start(std::vector<OutgoingRecord>& out) {
  training_->Start(output_);
  MILLRACE_CHECK(Send(out).ok());
}

Status TrainerTask::ProcessWeights(std::string_view key, std::string_view value) {
  MILLRACE_ASSIGN_OR_RETURN(const auto body, joiner_.Take(key, value));
  return body ? training_->ProcessWeights(*body) : absl::OkStatus();
}

Status TrainerTask::Advance(const RecordSink& out) {
  MILLRACE_RETURN_IF_ERROR(training_->TryTrain(output_));
  return Send(out);
}

void TrainerTask::Repeat(std::vector<OutgoingRecord>& out) {
  training_->Repeat(output_);
  MILLRACE_CHECK(Send(out).ok());
}

Status TrainerTask::Send(const RecordSink& out) {
  Status sent = SendFrames(output_.messages, options_, next_message_id_, out);
  output_.Clear();
  return sent;
}

}  // namespace millrace
