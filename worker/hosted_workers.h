// Which logical workers this process hosts.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/background_worker.h"
#include "base/stall_watch.h"
#include "base/status.h"
#include "job/plan_follower.h"
#include "kafka/admin.h"
#include "kafka/broker_retry.h"
#include "kafka/consumer.h"
#include "kafka/wakeup.h"
#include "messages/job.pb.h"
#include "topics/master_topics.h"
#include "topics/planned_hosts.h"

namespace millrace {

// Those that the master's plan gives it, if MasterApp has started it, as
// `self`; otherwise those that the consumer group JOB-workers gives it. Where rows are leased, the
// plan says of these which rows they have, and no group is asked. Used by one thread.
class HostedWorkers {
 public:
  // `most_workers`: that the job may have. `broker_retry` and `wakeup`, which is notified of rows
  // and of the plan, outlive it. Errors: Cancelled; PermissionDenied; NotFound: MasterApp has
  // started it, and there is no plan; FailedPrecondition: rows are leased, and a person has started
  // it; those of Follow.
  static StatusOr<std::unique_ptr<HostedWorkers>> Create(const JobConfig& config,
                                                         std::optional<Incarnation> self,
                                                         bool leases_rows, uint32_t most_workers,
                                                         const BrokerRetry& broker_retry,
                                                         Wakeup* wakeup);

  // The rows of these workers: its Poll tells which they are. Null where rows are leased.
  GroupConsumer* rows() { return rows_.get(); }
  // Where rows are leased: the workers, as of the last Follow, and what they have.
  const std::set<int32_t>& workers() const { return workers_; }
  PlannedLeases& leases() { return plan_->leases(); }
  // To be called before each Poll: has it follow the plan. FailedPrecondition, with the remedy: the
  // plan gives workers to processes that MasterApp has started, and this is none of them. Others
  // are those of PlanFollower::Poll.
  Status Follow();
  // The thread lives, although it has not called Follow for long. One that calls neither for
  // --stall-timeout loses its workers: the group gives them to others; a process that the plan
  // gives them to ends itself, so that the master does.
  void ReportProgress();

  // Why it has none, a sentence for the log; is_expected: it need not be mended.
  struct Reason {
    std::string text;
    bool is_expected = false;
  };
  Reason WhyNone(std::chrono::seconds waited) const;

 private:
  HostedWorkers(const JobConfig& config, std::optional<Incarnation> self, bool leases_rows,
                uint32_t most_workers, const BrokerRetry& broker_retry, Wakeup* wakeup)
      : config_(config),
        leases_rows_(leases_rows),
        most_workers_(most_workers),
        broker_retry_(broker_retry),
        wakeup_(*wakeup),
        self_(std::move(self)),
        plan_topic_(MasterTopicName(config.name(), MasterTopic::kPlan)) {}
  Status Open();
  Status BeginPlan();
  Status OpenRows();
  Status ReadPlan();
  Status LookForPlan();
  void LookInBackground();
  Status RefuseIfPlanned() const;

  const JobConfig& config_;
  const bool leases_rows_;
  const uint32_t most_workers_;
  const BrokerRetry& broker_retry_;
  Wakeup& wakeup_;
  const std::optional<Incarnation> self_;  // empty: by the group
  const std::string plan_topic_;
  std::unique_ptr<GroupConsumer> rows_;
  std::set<int32_t> workers_;           // where rows are leased
  std::unique_ptr<PlanFollower> plan_;  // null: there is no plan
  bool has_plan_ = false;               // it is read
  std::optional<StallWatch> watch_;     // with self_, from the first Follow on
  // Without self_: whether there is a plan by now.
  std::chrono::steady_clock::time_point next_look_{};
  std::unique_ptr<KafkaAdmin> admin_;
  std::atomic<bool> is_there_ = false;
  BackgroundWorker looks_;  // last: it uses the above
};

}  // namespace millrace
