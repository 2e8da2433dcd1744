#include "follower/feed_reader.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "job/kafka_options.h"
#include "topics/most_workers.h"
#include "topics/server_groups.h"
#include "topics/topics.h"

namespace millrace {
namespace {

constexpr size_t kRecordsAtOnce = 256;
// How far before the end of the log the newest record of each shard is looked for: a shard's
// records are its weights in pieces of a megabyte. If one is not there, so many times as far.
constexpr int64_t kBackPerShard = 32;
constexpr int64_t kFurther = 16;

}  // namespace

FeedReader::FeedReader(const JobConfig& config, const FoundJob& job, JobModel model,
                       OnCounted on_counted)
    : job_(config.name()),
      topic_(TopicName(config, Topic::kWeights)),
      partition_(
          SharedWeightsPartition(MostWorkers(job.training.training(), job.features.workers()))),
      on_counted_(std::move(on_counted)),
      feed_(std::move(model)),
      back_(kBackPerShard * ShardsOfGroup(job.training)) {
  handler_.on_record = [this](const ConsumedRecord& record) {
    Take(record);
    return absl::OkStatus();
  };
  handler_.on_end = [this](int32_t, Offset end) { end_ = end; };
  handler_.on_out_of_range = [this](int32_t) {
    return absl::AbortedError(topic_ + ": its records were deleted before they were read");
  };
}

StatusOr<std::unique_ptr<JobReader>> FeedReader::Open(const JobConfig& config, const FoundJob& job,
                                                      JobModel model, OnCounted on_counted,
                                                      Wakeup* wakeup) {
  std::unique_ptr<FeedReader> reader(
      new FeedReader(config, job, std::move(model), std::move(on_counted)));
  MILLRACE_ASSIGN_OR_RETURN(reader->consumer_, PartitionConsumer::Create(ToKafkaOptions(config),
                                                                         {.client_id = "predictor"},
                                                                         reader->topic_, wakeup));
  MILLRACE_ASSIGN_OR_RETURN(
      const OffsetRange range,
      RangeOfJobTopic(reader->job_, reader->topic_, reader->partition_, *reader->consumer_));
  MILLRACE_RETURN_IF_ERROR(reader->Start(range.begin, range.end));
  return std::unique_ptr<JobReader>(std::move(reader));
}

Status FeedReader::Start(Offset begin, Offset end) {
  begin_ = begin;
  from_ = std::max(begin, end - back_);
  end_ = -1;
  return consumer_->Assign(partition_, from_);
}

StatusOr<size_t> FeedReader::Poll() {
  MILLRACE_ASSIGN_OR_RETURN(const size_t events, consumer_->Poll(kRecordsAtOnce, handler_));
  if (end_ < 0 || from_ <= begin_ || feed_.missing() == 0) return events;
  back_ *= kFurther;
  MILLRACE_RETURN_IF_ERROR(Start(begin_, end_));
  return events;
}

// One that cannot be used is passed over, with a log line for the first.
void FeedReader::Take(const ConsumedRecord& record) {
  const auto newer = feed_.Take(record.key, record.value, record.timestamp_ms);
  if (newer.ok()) {
    if (*newer == nullptr) return;
    has_news_ = true;
    if ((*newer)->shard() != 0) return;
    for (const SharedWeights::Answer& answer : (*newer)->answers()) {
      on_counted_(WorkerId(answer.worker()), RowNumber(answer.rows().end()), record.timestamp_ms);
    }
  } else if (unusable_++ == 0) {
    spdlog::warn(
        "{}, partition {}, offset {}: record skipped, as others like it will be: {}. Another "
        "program may write to this topic",
        topic_, partition_, record.offset, TextOf(newer.status()));
  }
}

std::string FeedReader::WhatIsMissing() const {
  const size_t missing = feed_.missing();
  if (missing == 0 || end_ < 0) return "";
  return "no weights of the job " + job_ + " are there yet (none of " + std::to_string(missing) +
         " of its shards stand in " + topic_ +
         "): it has learnt nothing, or its servers have been away for more than ten minutes";
}

StatusOr<ExportedModel> FeedReader::ToModel() {
  has_news_ = false;
  return feed_.ToModel();
}

}  // namespace millrace
