// Reads a job's model from its checkpoints.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "durability/checkpoints/parameters_tail.h"
#include "follower/checkpoint_image.h"
#include "follower/found_job.h"
#include "follower/job_model.h"
#include "follower/job_reader.h"
#include "kafka/consumer.h"
#include "kafka/wakeup.h"
#include "messages/job.pb.h"

namespace millrace {

// Of each shard the last whole checkpoint, with all embedding rows, in memory. Checkpoints of
// several shards are made at different times.
class CheckpointReader final : public JobReader {
 public:
  // References outlive it; `wakeup` is notified when there is something to poll. NotFound: the
  // topic `parameters` is not there yet. Others: those of ParametersTail::Create.
  static StatusOr<std::unique_ptr<JobReader>> Open(const JobConfig& config, const FoundJob& job,
                                                   JobModel model, OnCounted on_counted,
                                                   Wakeup* wakeup, const std::atomic<bool>& stop);

  // Errors also: DataLoss, when a checkpoint cannot be used.
  StatusOr<size_t> Poll() override;
  bool has_news() const override;
  std::string WhatIsMissing() const override;
  StatusOr<ExportedModel> ToModel() override;
  int64_t sent_ms() const override { return sent_ms_; }
  Status Look(std::chrono::milliseconds timeout) override {
    return asks_->QueryRange(0, timeout).status();
  }

 private:
  struct Shard {
    CheckpointImage image;
    std::unique_ptr<ParametersTail> tail;
    bool is_new = false;   // it has a whole checkpoint that the last ToModel did not have
    int64_t taken_ms = 0;  // when the last whole checkpoint was; 0: none has come
  };

  CheckpointReader(JobModel model, OnCounted on_counted);

  bool HasAll() const;

  StatusOr<size_t> PollShard(Shard& shard);
  void NoteWhole(Shard& shard);

  const JobModel model_;
  const OnCounted on_counted_;
  std::unique_ptr<PartitionConsumer> asks_;  // of `parameters`; reads nothing
  std::vector<Shard> shards_;
  int64_t sent_ms_ = 0;
};

}  // namespace millrace
