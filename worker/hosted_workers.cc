#include "worker/hosted_workers.h"

#include <spdlog/spdlog.h>

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "job/kafka_options.h"
#include "kafka/timeouts.h"
#include "topics/topics.h"
#include "worker/stalled_process.h"

namespace millrace {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kLookForPlanEvery(10);
constexpr size_t kMostNames = 10;

}  // namespace

StatusOr<std::unique_ptr<HostedWorkers>> HostedWorkers::Create(
    const JobConfig& config, std::optional<Incarnation> self, bool leases_rows,
    uint32_t most_workers, const BrokerRetry& broker_retry, Wakeup* wakeup) {
  if (leases_rows && !self) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the job ", config.name(),
        " leases rows (--sharding dynamic), which only MasterApp's plan gives to WorkerApps, and "
        "only to those that MasterApp starts. Start no WorkerApp by hand: for more processes, give "
        "MasterApp a higher --worker-processes"));
  }
  std::unique_ptr<HostedWorkers> hosted(
      new HostedWorkers(config, std::move(self), leases_rows, most_workers, broker_retry, wakeup));
  MILLRACE_RETURN_IF_ERROR(hosted->Open());
  return hosted;
}

Status HostedWorkers::Open() {
  if (!self_) {
    MILLRACE_ASSIGN_OR_RETURN(admin_,
                              KafkaAdmin::Create(ToKafkaOptions(config_), "worker-plan-look"));
    // Before it is given any worker.
    const Status found =
        broker_retry_.Run([this] { return admin_->PartitionCount(plan_topic_); }).status();
    if (absl::IsPermissionDenied(found)) {
      spdlog::warn(
          "whether MasterApp runs the job is not known: {}. If it does, this WorkerApp, which was "
          "started by hand, trains on all rows once more; let its user describe and read the topic "
          "(docs/security.md)",
          TextOf(found));
    } else if (!found.ok() && !absl::IsNotFound(found)) {
      return found;
    }
    is_there_ = found.ok();
  }
  if (self_ || is_there_) {
    MILLRACE_RETURN_IF_ERROR(broker_retry_.Run([this] { return BeginPlan(); }));
    has_plan_ = true;
  }
  if (!self_ && has_plan_) MILLRACE_RETURN_IF_ERROR(ReadPlan());
  return leases_rows_ ? absl::OkStatus() : OpenRows();
}

Status HostedWorkers::OpenRows() {
  ConsumerOptions options;
  options.fetch_wait = kFetchWait;
  options.client_id = "worker-input";
  options.group_id = WorkersGroup(config_);
  options.joins_group = !self_;
  options.session_timeout_s = config_.worker().session_timeout_s();
  options.stall_timeout_s = config_.worker().stall_timeout_s();
  // Numbers of rows whose transaction was aborted are given to others.
  options.read_committed = true;
  MILLRACE_ASSIGN_OR_RETURN(
      rows_, GroupConsumer::Create(ToKafkaOptions(config_), options,
                                   TopicName(config_.name(), Topic::kInputData), &wakeup_));
  return absl::OkStatus();
}

Status HostedWorkers::BeginPlan() {
  if (plan_ == nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(plan_, PlanFollower::Create(ToKafkaOptions(config_), config_.name(),
                                                          leases_rows_, &wakeup_));
  }
  return plan_->Begin(kBrokerCall);
}

// To its end, so that the group gives this process nothing that others have.
Status HostedWorkers::ReadPlan() {
  bool is_read = false;
  while (!is_read) {
    if (broker_retry_.stopped()) return absl::CancelledError("stopped");
    MILLRACE_ASSIGN_OR_RETURN(is_read, plan_->Poll());
    if (!is_read) wakeup_.WaitFor(kPoll);
  }
  return RefuseIfPlanned();
}

void HostedWorkers::ReportProgress() {
  if (rows_) rows_->ReportProgress();
  if (watch_) watch_->Progress();
}

Status HostedWorkers::Follow() {
  if (self_ && !watch_) {
    const std::chrono::duration<double> limit(config_.worker().stall_timeout_s());
    watch_.emplace(std::chrono::ceil<std::chrono::milliseconds>(limit),
                   [limit] { EndStalledProcess(limit.count()); });
  }
  if (watch_) watch_->Progress();
  if (!has_plan_) MILLRACE_RETURN_IF_ERROR(LookForPlan());
  if (!has_plan_) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const bool has_changed, plan_->Poll());
  if (!has_changed) return absl::OkStatus();
  if (!self_) return RefuseIfPlanned();
  std::set<int32_t> workers = plan_->hosts().WorkersOf(*self_);
  if (!workers.empty() && *workers.rbegin() >= static_cast<int32_t>(most_workers_)) {
    return absl::FailedPreconditionError(absl::StrCat(
        plan_topic_, " gives this process worker ", *workers.rbegin(), ", but the job ",
        config_.name(), " may have only workers 0 to ", most_workers_ - 1,
        ": stop MasterApp, and start it again with the --workers of the job"));
  }
  if (rows_) {
    rows_->Read(std::move(workers));
  } else {
    workers_ = std::move(workers);
  }
  return absl::OkStatus();
}

// A master may come at any time.
Status HostedWorkers::LookForPlan() {
  if (!is_there_) {
    LookInBackground();
    return absl::OkStatus();
  }
  Status begun = BeginPlan();
  has_plan_ = begun.ok();
  if (!IsAway(begun)) return begun;
  // Rows are not to wait for it.
  is_there_ = false;
  next_look_ = steady_clock::now() + kLookForPlanEvery;
  return absl::OkStatus();
}

void HostedWorkers::LookInBackground() {
  const auto now = steady_clock::now();
  if (now < next_look_) return;
  next_look_ = now + kLookForPlanEvery;
  looks_.Post("plan", [this] {
    if (admin_->PartitionCount(plan_topic_).ok()) is_there_ = true;
  });
}

Status HostedWorkers::RefuseIfPlanned() const {
  std::vector<std::string> names = plan_->hosts().Names();
  if (names.empty()) return absl::OkStatus();
  const bool has_more = names.size() > kMostNames;
  if (has_more) names.resize(kMostNames);
  return absl::FailedPreconditionError(absl::StrCat(
      "MasterApp runs the job ", config_.name(), ", and its plan gives the logical workers to ",
      absl::StrJoin(names, ", "), has_more ? " .." : "",
      ". A WorkerApp that was started by hand would train on the same rows once more, so this one "
      "ends. For more processes, give MasterApp a higher --worker-processes. To start all "
      "WorkerApps by hand, give it --worker-processes 0. If MasterApp and its processes are gone "
      "for good, start MasterApp again with --run-dir-is-lost"));
}

HostedWorkers::Reason HostedWorkers::WhyNone(std::chrono::seconds waited) const {
  if (self_ && plan_->hosts().IsReplaced(*self_)) {
    return {
        absl::StrCat("another process has taken the place of ", self_->process, ", incarnation ",
                     self_->number, ", in the plan: this one trains nothing any more. Stop it"),
        false};
  }
  if (leases_rows_ && !workers_.empty()) {
    return {
        "waiting for rows: the plan leases none yet. MasterApp begins when CsvProducer and "
        "ServerApp have published the job's features and settings",
        true};
  }
  if (self_) {
    return {absl::StrCat("standby: the plan gives this process none of the ", config_.workers(),
                         " logical workers: other processes host them, or MasterApp does not run. "
                         "It gets some when MasterApp runs and one of those processes ends"),
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
