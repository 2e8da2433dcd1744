// Reads the feed of a job's weights, from its newest records on.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "base/types.h"
#include "follower/found_job.h"
#include "follower/job_model.h"
#include "follower/job_reader.h"
#include "follower/weights_feed.h"
#include "kafka/consumer.h"
#include "kafka/wakeup.h"
#include "messages/job.pb.h"

namespace millrace {

class FeedReader final : public JobReader {
 public:
  // `model` has no embedding rows. `wakeup` is notified when there is something to poll, and
  // outlives the reader. Errors: NotFound: the topic `weights` is not there yet; Unavailable or
  // DeadlineExceeded when no broker answers.
  static StatusOr<std::unique_ptr<JobReader>> Open(const JobConfig& config, const FoundJob& job,
                                                   JobModel model, OnCounted on_counted,
                                                   Wakeup* wakeup);

  StatusOr<size_t> Poll() override;
  bool has_news() const override { return has_news_ && feed_.missing() == 0; }
  std::string WhatIsMissing() const override;
  StatusOr<ExportedModel> ToModel() override;
  int64_t sent_ms() const override { return feed_.sent_ms(); }
  Status Look(std::chrono::milliseconds timeout) override {
    return consumer_->QueryRange(partition_, timeout).status();
  }

 private:
  FeedReader(const JobConfig& config, const FoundJob& job, JobModel model, OnCounted on_counted);

  // Starts at the newest records, or `back_` before the end.
  Status Start(Offset begin, Offset end);
  void Take(const ConsumedRecord& record);

  const std::string job_;
  const std::string topic_;
  const int32_t partition_;
  const OnCounted on_counted_;
  WeightsFeed feed_;
  std::unique_ptr<PartitionConsumer> consumer_;
  ConsumerHandler handler_;
  Offset begin_ = 0;  // of the log
  Offset from_ = 0;   // where reading began
  int64_t back_ = 0;
  Offset end_ = -1;  // of the log, when it was met; -1: not yet
  bool has_news_ = false;
  uint64_t unusable_ = 0;  // records
};

}  // namespace millrace
