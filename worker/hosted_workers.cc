#include "worker/hosted_workers.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "job/kafka_options.h"
#include "kafka/timeouts.h"
#include "topics/topics.h"

namespace millrace {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kLookForPlanEvery(10);
constexpr size_t kMostNames = 10;

}  // namespace

StatusOr<std::unique_ptr<HostedWorkers>> HostedWorkers::Create(const JobConfig& config,
                                                               std::optional<Incarnation> self,
                                                               const BrokerRetry& broker_retry,
                                                               Wakeup* wakeup) {
  std::unique_ptr<HostedWorkers> hosted(new HostedWorkers(config, std::move(self), broker_retry));
  MILLRACE_RETURN_IF_ERROR(hosted->Open(wakeup));
  return hosted;
}

Status HostedWorkers::Open(Wakeup* wakeup) {
  const KafkaOptions kafka = ToKafkaOptions(config_);
  MILLRACE_ASSIGN_OR_RETURN(plan_, PlanFollower::Create(kafka, config_.name(), wakeup));
  if (!self_) {
    MILLRACE_ASSIGN_OR_RETURN(admin_, KafkaAdmin::Create(kafka, "worker-plan-look"));
    // Before it is given any worker.
    const Status found = admin_->PartitionCount(plan_->topic()).status();
    if (absl::IsPermissionDenied(found)) return found;
    is_there_ = found.ok();
  }
  if (self_ || is_there_) {
    MILLRACE_RETURN_IF_ERROR(broker_retry_.Run([this] { return plan_->Begin(kBrokerCall); }));
    has_plan_ = true;
  }
  if (!self_ && has_plan_) MILLRACE_RETURN_IF_ERROR(ReadPlan(*wakeup));
  ConsumerOptions options;
  options.fetch_wait = kFetchWait;
  options.client_id = "worker-input";
  options.group_id = config_.name() + "-workers";
  options.joins_group = !self_;
  options.session_timeout_s = config_.worker().session_timeout_s();
  options.stall_timeout_s = config_.worker().stall_timeout_s();
  // Numbers of rows whose transaction was aborted are given to others.
  options.read_committed = true;
  MILLRACE_ASSIGN_OR_RETURN(
      rows_,
      GroupConsumer::Create(kafka, options, TopicName(config_.name(), Topic::kInputData), wakeup));
  return absl::OkStatus();
}

// To its end, so that the group gives this process nothing that others have.
Status HostedWorkers::ReadPlan(Wakeup& wakeup) {
  bool is_read = false;
  while (!is_read) {
    if (broker_retry_.stopped()) return absl::CancelledError("stopped");
    MILLRACE_ASSIGN_OR_RETURN(is_read, plan_->Poll());
    if (!is_read) wakeup.WaitFor(kPoll);
  }
  return RefuseIfPlanned();
}

Status HostedWorkers::Follow() {
  if (!has_plan_) MILLRACE_RETURN_IF_ERROR(LookForPlan());
  if (!has_plan_) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const bool has_changed, plan_->Poll());
  if (!has_changed) return absl::OkStatus();
  if (!self_) return RefuseIfPlanned();
  rows_->Read(plan_->hosts().WorkersOf(*self_));
  return absl::OkStatus();
}

// A master may come at any time.
Status HostedWorkers::LookForPlan() {
  if (!is_there_) {
    LookInBackground();
    return absl::OkStatus();
  }
  const Status begun = plan_->Begin(kBrokerCall);
  has_plan_ = begun.ok();
  return has_plan_ || IsAway(begun) ? absl::OkStatus() : begun;
}

void HostedWorkers::LookInBackground() {
  const auto now = steady_clock::now();
  if (now < next_look_) return;
  next_look_ = now + kLookForPlanEvery;
  looks_.Post("plan", [this] {
    if (admin_->PartitionCount(plan_->topic()).ok()) is_there_ = true;
  });
}

Status HostedWorkers::RefuseIfPlanned() const {
  std::vector<std::string> names = plan_->hosts().Names();
  if (names.empty()) return absl::OkStatus();
  const bool has_more = names.size() > kMostNames;
  if (has_more) names.resize(kMostNames);
  return absl::FailedPreconditionError(absl::StrCat(
      "MasterApp runs the job ", config_.name(), ", and has given its logical workers to ",
      absl::StrJoin(names, ", "), has_more ? " .." : "",
      ". A WorkerApp that was started by hand would train the same rows once more, so it ends. "
      "Give "
      "MasterApp more --worker-processes; or none (--worker-processes 0), where all WorkerApps "
      "are started by hand. If MasterApp and its processes are gone for good, start it again "
      "(--run-dir-is-lost)"));
}

HostedWorkers::Reason HostedWorkers::WhyNone(std::chrono::seconds waited) const {
  if (self_ && plan_->hosts().IsReplaced(*self_)) {
    return {absl::StrCat("another process has taken the place of ", self_->process,
                         ": this one trains nothing any more, and may be ended"),
            false};
  }
  if (self_) {
    return {absl::StrCat("standby: the master's plan has given none of the ", config_.workers(),
                         " workers to this process; it gets some when another one ends, or a few "
                         "seconds after its start"),
            true};
  }
  if (rows_->is_member()) {
    return {absl::StrCat("standby: the consumer group has given none of the ", config_.workers(),
                         " workers to this process; it gets some when another member of ",
                         config_.name(),
                         "-workers ends (after a restart of the brokers also when its own old "
                         "membership has run out: --session-timeout)"),
            true};
  }
  return {absl::StrCat("consumer group ", config_.name(),
                       "-workers: this process has been waiting to join for ", waited.count(),
                       " s; check the brokers and the group's other members"),
          false};
}

}  // namespace millrace
