// The shards that a master's plan gives to this process.
#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "job/job_registry.h"
#include "job/plan_follower.h"
#include "kafka/broker_retry.h"
#include "kafka/wakeup.h"
#include "messages/job.pb.h"
#include "messages/records.pb.h"
#include "topics/planned_hosts.h"

namespace millrace {

// Used by one thread. References outlive it.
class PlannedShards {
 public:
  static StatusOr<std::unique_ptr<PlannedShards>> Create(const JobConfig& config, Incarnation self,
                                                         const JobTraining& training,
                                                         JobRegistry& registry,
                                                         const std::atomic<bool>& stop);

  // Waits until the plan gives it shards of the layout of `training`. Empty: the job has ended, and
  // the process need not stay; or the plan has a later layout: see is_of_later_layout.
  // FailedPrecondition: another incarnation of this process was started, or the plan has a shard
  // that the job does not. Cancelled when stopped.
  StatusOr<std::vector<ShardId>> Wait();
  // Whether the plan has a later layout of the job's shards than `training`.
  bool is_of_later_layout() const { return plan_->hosts().LayoutOf(self_) > training_.layout(); }
  // Removes the stores of shards that the plan gives to other processes: nobody wants them any
  // more, they take room, and a store that comes back after a week may have missed deletions (the
  // topic's delete.retention.ms). Errors are logged. REQUIRES: this process has no store open.
  void RemoveStoresOfOthers() const;
  // Whether the plan, as far as it has come, still gives it these shards and no others.
  StatusOr<bool> AreStill(const std::vector<ShardId>& shards);
  // As AreStill, by the plan as it stands in Kafka now.
  StatusOr<bool> AreStillAtTheEnd(const std::vector<ShardId>& shards);

 private:
  PlannedShards(const JobConfig& config, Incarnation self, const JobTraining& training,
                JobRegistry& registry, const std::atomic<bool>& stop)
      : config_(config),
        self_(std::move(self)),
        training_(training),
        registry_(registry),
        stop_(stop),
        broker_retry_(stop, config.broker_timeout_s()) {}

  Status Begin();
  // To the end that the topic had at Begin.
  Status ReadToTheEnd();
  std::vector<ShardId> Now() const;

  const JobConfig& config_;
  const Incarnation self_;
  const JobTraining& training_;
  JobRegistry& registry_;
  const std::atomic<bool>& stop_;
  const BrokerRetry broker_retry_;
  Wakeup wakeup_;
  std::unique_ptr<PlanFollower> plan_;
};

}  // namespace millrace
