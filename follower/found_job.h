// What a program that only reads a job finds out about it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"
#include "kafka/consumer.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"

namespace millrace {

// How long a broker is given to answer one question.
constexpr std::chrono::seconds kFollowerLook(1);

// The log of a partition of `topic`, which `consumer` reads. NotFound: it is not there, so the job
// has not begun; Unavailable or DeadlineExceeded when no broker answers.
StatusOr<OffsetRange> RangeOfJobTopic(const std::string& job, const std::string& topic,
                                      int32_t partition, PartitionConsumer& consumer);

struct FoundJob {
  JobFeatures features;
  JobTraining training;
  int64_t began_ms = 0;  // when its settings were published, which tells it from one of before
  bool ended = false;    // every worker has left every shard

  // Whether the topics are those of the same job, perhaps later.
  bool IsSame(const FoundJob& other) const;
};

// Whether a program can run what stands in the job topic, where anybody may have written it.
using CheckFoundJob = std::function<Status(const JobFeatures&, const JobTraining&)>;

// Reads the topic `job`, and waits for nobody: NotFound with what is missing when the job has not
// begun; Unavailable or DeadlineExceeded when no broker answers. Others: those of `check` and of
// JobRegistry. `stop` ends it with Cancelled.
StatusOr<FoundJob> FindJob(const JobConfig& config, const CheckFoundJob& check,
                           const std::atomic<bool>& stop);

}  // namespace millrace
