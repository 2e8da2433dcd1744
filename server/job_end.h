// The end of a job, which the processes of its shards tell each other.
#pragma once

#include <chrono>
#include <set>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "job/job_registry.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"

namespace millrace {

// A server stays until every worker has left every shard of the job, also those of other processes:
// a new instance of a worker that has left some shards only asks all of them. Not thread-safe.
class JobEnd {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // References outlive it.
  JobEnd(const JobConfig& config, const JobTraining& training, JobRegistry& registry)
      : config_(config), training_(training), registry_(registry) {}

  // Publishes that every worker has left these shards, and that their state is durable.
  Status Publish(const std::vector<ShardId>& shards);
  // Whether that was published for all shards. Asks the broker a few times a second; false while it
  // is unreachable.
  StatusOr<bool> AllShardsEnded(Time now);

 private:
  void ReportWhoHasNotEnded(const std::set<ShardId>& ended) const;

  const JobConfig& config_;
  const JobTraining& training_;
  JobRegistry& registry_;
  bool all_ended_ = false;
  Time next_look_;
  Time next_report_;
};

}  // namespace millrace
