#include "follower/checkpoint_reader.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "follower/checkpoint_model.h"
#include "job/kafka_options.h"
#include "stores/memory_byte_map.h"
#include "tasks/task_options.h"
#include "topics/server_groups.h"
#include "topics/topics.h"

namespace millrace {

CheckpointReader::CheckpointReader(JobModel model, OnCounted on_counted)
    : model_(std::move(model)), on_counted_(std::move(on_counted)) {}

StatusOr<std::unique_ptr<JobReader>> CheckpointReader::Open(const JobConfig& config,
                                                            const FoundJob& job, JobModel model,
                                                            OnCounted on_counted, Wakeup* wakeup,
                                                            const std::atomic<bool>& stop) {
  const std::string topic = TopicName(config, Topic::kParameters);
  std::unique_ptr<CheckpointReader> reader(
      new CheckpointReader(std::move(model), std::move(on_counted)));
  MILLRACE_ASSIGN_OR_RETURN(
      reader->asks_, PartitionConsumer::Create(ToKafkaOptions(config), {.client_id = "predictor"},
                                               topic, nullptr));
  MILLRACE_RETURN_IF_ERROR(RangeOfJobTopic(config.name(), topic, 0, *reader->asks_).status());
  reader->shards_.reserve(ShardsOfGroup(job.training));
  const MemoryByteMap nothing;  // reading starts at the first checkpoint
  for (ShardId shard = 0; shard < ShardsOfGroup(job.training); ++shard) {
    Shard& made = reader->shards_.emplace_back(
        Shard{CheckpointImage(MakeServerOptions(job.features, job.training, shard)), nullptr});
    MILLRACE_ASSIGN_OR_RETURN(made.tail,
                              ParametersTail::Create(config, shard, nothing, wakeup, stop));
  }
  return std::unique_ptr<JobReader>(std::move(reader));
}

StatusOr<size_t> CheckpointReader::Poll() {
  size_t events = 0;
  if (has_news()) return events;
  for (Shard& shard : shards_) {
    // One that is whole waits for the others, which may be in the middle of a checkpoint.
    if (shard.is_new && shard.image.is_whole() && shard.tail->caught_up()) continue;
    MILLRACE_ASSIGN_OR_RETURN(const size_t some, PollShard(shard));
    events += some;
  }
  return events;
}

StatusOr<size_t> CheckpointReader::PollShard(Shard& shard) {
  StatusOr<size_t> events = shard.tail->Poll([&](const CheckpointAssembler::Part& part) -> Status {
    const Status taken = shard.image.Take(part);
    if (!taken.ok()) {
      return absl::DataLossError("parameters: a checkpoint cannot be used here: " +
                                 std::string(TextOf(taken)));
    }
    if (shard.image.is_whole()) NoteWhole(shard);
    return absl::OkStatus();
  });
  if (absl::IsOutOfRange(events.status())) return absl::AbortedError(events.status().message());
  return events;
}

void CheckpointReader::NoteWhole(Shard& shard) {
  shard.is_new = true;
  shard.taken_ms = NowMs();
  if (shard.image.state().shard() != 0) return;
  for (const ShardState::Member& member : shard.image.state().members()) {
    on_counted_(WorkerId(member.worker()), RowNumber(member.rows().end()), shard.taken_ms);
  }
}

bool CheckpointReader::HasAll() const {
  return std::ranges::all_of(shards_, [](const Shard& shard) {
    return shard.tail->caught_up() && shard.taken_ms > 0 && shard.image.is_whole();
  });
}

bool CheckpointReader::has_news() const {
  return HasAll() && std::ranges::any_of(shards_, &Shard::is_new);
}

std::string CheckpointReader::WhatIsMissing() const {
  const auto has_caught_up = [](const Shard& shard) { return shard.tail->caught_up(); };
  const auto has_none = [](const Shard& shard) { return shard.taken_ms == 0; };
  const auto none = std::ranges::count_if(shards_, has_none);
  if (none == 0 || !std::ranges::all_of(shards_, has_caught_up)) return "";
  return "no checkpoint of " + std::to_string(none) + " of the shards of the job " +
         model_.features().job() + " is there yet";
}

StatusOr<ExportedModel> CheckpointReader::ToModel() {
  std::vector<const CheckpointImage*> images;
  sent_ms_ = INT64_MAX;
  for (Shard& shard : shards_) {
    shard.is_new = false;
    images.push_back(&shard.image);
    sent_ms_ = std::min(sent_ms_, shard.taken_ms);
  }
  return ModelOfCheckpoints(model_, images);
}

}  // namespace millrace
