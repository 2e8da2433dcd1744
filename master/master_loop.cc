#include "master/master_loop.h"

#include <google/protobuf/util/message_differencer.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_marks.h"
#include "base/printable.h"
#include "kafka/timeouts.h"
#include "launcher/run_folder.h"
#include "master/job_files.h"
#include "master/job_news.h"
#include "master/job_processes.h"
#include "master/master_log.h"
#include "master/node_desk.h"
#include "master/plan_reader.h"
#include "master/row_leases.h"
#include "master/shard_layouts.h"
#include "master/task_desk.h"
#include "processors/master_processor.h"
#include "topics/control_codec.h"
#include "topics/master_topics.h"
#include "topics/plan_codec.h"
#include "topics/process_name.h"

namespace millrace {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr int kMostMasterClients = 10;  // of the clients, without a transaction in between
constexpr seconds kTickEvery(1);
constexpr seconds kDeleteEvery(60);
constexpr char kStateKey[] = "state";
constexpr size_t kMostPathBytes = 4096;
// An earlier master of this machine ends within a second or two of being fenced, and has the port.
constexpr seconds kListenFor(20);

std::string PlaceOf(const std::string& run_dir) {
  return run_dir == kFolderInPods ? "a Kubernetes cluster" : Printable(run_dir, kMostPathBytes);
}

class Master {
 public:
  Master(const JobConfig& config, const MasterOptions& options, Launcher& launcher,
         MasterWakeup& wakeup, const std::atomic<bool>& stop)
      : config_(config), options_(options), launcher_(launcher), wakeup_(wakeup), stop_(stop) {
    const auto& groups = options.plan.groups();
    if (std::ranges::any_of(groups, [](const ProcessGroup& g) { return g.shards() > 0; })) {
      layouts_.emplace(config, stop);
    }
    if (options.leases_rows) leases_.emplace(config, options.lease_rows, &wakeup.wakeup());
    if (options.tasks.address.empty()) return;
    desk_.emplace(wakeup.wakeup());
    node_desk_.emplace(wakeup.wakeup());
  }

  StatusOr<JobProcesses> Run();

 private:
  using Transaction = MasterLog::Transaction;

  Status RunWithOneClient();
  Status Begin();
  Status CheckWhereItRuns();
  void TellWhatRunsAlready() const;
  Status ServeTasks();
  bool IsOverruled(std::string_view value) const;
  Status ReadControl();
  bool IsTickDue() const;
  bool IsLookDue();
  StatusOr<std::vector<std::string>> RecordsForControl(bool has_looked);
  Status WriteWhatIsNew(bool has_looked);
  void AnswerCalls();
  Status CarryOut();
  void DeleteWhatIsFolded();
  void TellLastWords(const JobProcesses& now) const;
  void TellNews();
  bool IsOver() const;
  bool OwnRecordsAreFolded() const { return processor_->next_offset() >= log_->written_end(); }
  bool IsCommitted() const;
  bool HaveProcessesChanged() const;
  JobProcesses Now() const {
    return {processor_->state(), processor_->processes(), TaskSetsOf(processor_->tasks()),
            NodesOf(processor_->nodes()), LeasesOf(processor_->leases())};
  }

  const JobConfig& config_;
  const MasterOptions& options_;
  Launcher& launcher_;
  MasterWakeup& wakeup_;
  const std::atomic<bool>& stop_;
  const std::atomic<bool> never_ = false;

  bool plan_was_sent_ = false;
  bool plan_was_written_ = false;  // and that is known
  bool stop_was_sent_ = false;
  int restarts_ = 0;
  JobProcesses told_;
  std::vector<ProcessReport> seen_;
  steady_clock::time_point next_delete_ = steady_clock::now() + kDeleteEvery;
  std::optional<TaskDesk> desk_;
  std::optional<NodeDesk> node_desk_;    // with desk_
  std::optional<RowLeases> leases_;      // none: the job leases none
  std::optional<ShardLayouts> layouts_;  // none: no process hosts shards
  std::unique_ptr<TaskServer> task_server_;
  std::optional<steady_clock::time_point> listen_until_;

  // Of the present client; another one makes them anew.
  std::unique_ptr<MasterLog> log_;
  std::optional<MasterProcessor> processor_;
  std::map<std::string, std::optional<std::string>> pending_;  // for `plan`
  uint64_t ticks_ = 0;                                         // folded so far
  steady_clock::time_point last_tick_;
};

StatusOr<JobProcesses> Master::Run() {
  MILLRACE_RETURN_IF_ERROR(CheckWhereItRuns());
  while (true) {
    Status done = RunWithOneClient();
    if (done.ok()) return Now();
    if (IsFenced(done)) {
      return WithText(done,
                      absl::StrCat("another MasterApp has taken over the job ", config_.name(),
                                   ", and its processes run on: do not start this one again"));
    }
    if (!absl::IsAborted(done) || ++restarts_ > kMostMasterClients) return done;
    spdlog::warn("{}; MasterApp reads what Kafka has, and continues", std::string(done.message()));
  }
}

Status Master::Begin() {
  log_.reset();  // its producer must not be fenced by the next one of this process
  pending_.clear();
  if (leases_) leases_->BeginAgain();
  // Who is to stop what runs waits for a broker, to write that.
  const std::atomic<bool>& stop = plan_was_sent_ ? never_ : stop_;
  MILLRACE_ASSIGN_OR_RETURN(log_, MasterLog::Create(config_, stop, &wakeup_.wakeup()));
  // No other master can say any more that something runs: it must be seen before it is missed.
  MILLRACE_RETURN_IF_ERROR(launcher_.Resync(stop));
  MILLRACE_ASSIGN_OR_RETURN(const auto plan, ReadPlan(config_, stop));
  MILLRACE_ASSIGN_OR_RETURN(processor_, MasterProcessor::Restore(config_.epoch(), plan));
  MILLRACE_RETURN_IF_ERROR(log_->Follow(processor_->next_offset()));
  told_ = Now();
  ticks_ = processor_->state().ticks();
  last_tick_ = steady_clock::now();
  while (!log_->was_at_end()) {
    if (stop_ && !plan_was_sent_) return absl::CancelledError("stopped");
    MILLRACE_RETURN_IF_ERROR(ReadControl());
    if (!log_->was_at_end()) wakeup_.wakeup().WaitFor(kPoll);
  }
  // What the last client had written without being told counts, too. (An equal plan of an earlier
  // master does not start again what is stopped.)
  const MasterState& state = processor_->state();
  plan_was_sent_ = plan_was_written_ || (plan_was_sent_ && state.phase() == MasterState::ACTIVE &&
                                         google::protobuf::util::MessageDifferencer::Equals(
                                             state.plan(), options_.plan));
  stop_was_sent_ = stop_was_sent_ && state.phase() != MasterState::ACTIVE;
  if (!desk_) return absl::OkStatus();
  desk_->Open(processor_->next_offset(), processor_->tasks());
  node_desk_->Open(processor_->next_offset(), processor_->nodes());
  return absl::OkStatus();
}

// Only when all earlier masters are fenced: what they answered is in the state then.
Status Master::ServeTasks() {
  if (!desk_ || task_server_) return absl::OkStatus();
  StatusOr<std::unique_ptr<TaskServer>> server =
      TaskServer::Start(options_.tasks, *desk_, *node_desk_);
  if (server.ok()) {
    task_server_ = *std::move(server);
    spdlog::info("tasks and nodes are served at {} (port {})", options_.tasks.address,
                 task_server_->port());
    return absl::OkStatus();
  }
  const auto now = steady_clock::now();
  if (!listen_until_) {
    listen_until_ = now + kListenFor;
    spdlog::warn("{}; MasterApp tries again for {} s", std::string(server.status().message()),
                 kListenFor.count());
  }
  return now < *listen_until_ ? absl::OkStatus() : server.status();
}

// What runs can be seen from its machine and its folder only. Another master there must not be
// fenced, and nothing be started twice.
Status Master::CheckWhereItRuns() {
  MILLRACE_ASSIGN_OR_RETURN(const auto plan, ReadPlan(config_, stop_));
  MILLRACE_ASSIGN_OR_RETURN(const MasterProcessor master,
                            MasterProcessor::Restore(config_.epoch(), plan));
  MILLRACE_ASSIGN_OR_RETURN(seen_, launcher_.Look());
  const std::vector<ProcessState> processes = master.processes();
  bool some_may_run = false;
  bool some_ran = false;
  for (const ProcessState& process : processes) {
    const ProcessState::Phase phase = process.phase();
    some_may_run |= phase == ProcessState::STARTING;
    some_ran |= phase == ProcessState::RUNNING || phase == ProcessState::STOPPING;
  }
  if (!(some_may_run || some_ran) || options_.run_dir_is_lost) return absl::OkStatus();
  const std::string run_dir = master.state().plan().run_dir();
  if (!run_dir.empty() && run_dir != options_.run_dir) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the job ", config_.name(), " runs in ", PlaceOf(run_dir), ", not in ",
        PlaceOf(options_.run_dir), ": give ",
        run_dir == kFolderInPods ? "--launcher kubernetes"
                                 : absl::StrCat("--run-dir ", PlaceOf(run_dir), ", on its machine"),
        "; or, if what was started there is gone for good, --run-dir-is-lost"));
  }
  if (!some_ran || !seen_.empty()) return absl::OkStatus();
  if (!options_.place.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        options_.place, " has no pod of the processes that run for the job ", config_.name(),
        ": start MasterApp with the --kubernetes-namespace and in the cluster where they do; or, "
        "if "
        "they are gone for good, with --run-dir-is-lost"));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      options_.run_dir, " knows nothing of the processes that run for the job ", config_.name(),
      ": start MasterApp with the --run-dir and on the machine where they do; or, if they are gone "
      "for good, with --run-dir-is-lost"));
}

// When all earlier masters are fenced: who reads this line knows that this one is the master.
void Master::TellWhatRunsAlready() const {
  const auto running =
      std::ranges::count_if(seen_, [](const ProcessReport& report) { return !report.has_end(); });
  if (running > 0) spdlog::info("{} of the job's processes run already", running);
}

Status Master::RunWithOneClient() {
  MILLRACE_RETURN_IF_ERROR(Begin());
  if (restarts_ == 0) TellWhatRunsAlready();
  if (processor_->phase() == MasterState::ENDED) {
    spdlog::info(
        "the job {} has ended; nothing is started. To train again, give another --job (and another "
        "--run-dir, if one was given)",
        config_.name());
    return absl::OkStatus();
  }
  wakeup_.NoteProcesses();
  while (true) {
    MILLRACE_RETURN_IF_ERROR(ServeTasks());
    MILLRACE_RETURN_IF_ERROR(ReadControl());
    const bool looks = IsLookDue();
    if (looks) {
      MILLRACE_ASSIGN_OR_RETURN(seen_, launcher_.Look());
    }
    MILLRACE_RETURN_IF_ERROR(WriteWhatIsNew(looks));
    AnswerCalls();
    if (leases_ && IsCommitted()) {
      MILLRACE_RETURN_IF_ERROR(
          leases_->OrderResize(processor_->leases(), processor_->state().layout().number()));
      leases_->Trim(processor_->leases());
    }
    if (layouts_ && IsCommitted() && processor_->phase() == MasterState::ACTIVE) {
      MILLRACE_RETURN_IF_ERROR(layouts_->Order(processor_->state()));
    }
    if (looks) MILLRACE_RETURN_IF_ERROR(CarryOut());
    if (IsOver() && pending_.empty()) return absl::OkStatus();
    DeleteWhatIsFolded();
    wakeup_.wakeup().WaitFor(kPoll);
  }
}

// ---- from control to plan ----

// A stop that no master has heard of holds no more: this one's plan would overrule it, but only
// when all processes were stopped, to start them again. (MasterApp stop says it again as long as it
// waits.)
bool Master::IsOverruled(std::string_view value) const {
  if (plan_was_sent_) return false;
  const StatusOr<ControlRecord> record = DecodeControl(value, config_.epoch());
  return record.ok() && record->has_stop();
}

Status Master::ReadControl() {
  MILLRACE_RETURN_IF_ERROR(log_->Poll([this](Offset offset, std::string_view value) {
    if (IsOverruled(value)) {
      processor_->Skip(offset);
      return;
    }
    const std::string refused = processor_->Fold(offset, value);
    if (refused.empty()) return;
    spdlog::warn("{}, offset {}: {}", MasterTopicName(config_.name(), MasterTopic::kControl),
                 int64_t{offset}, refused);
  }));
  for (auto& [key, value] : processor_->TakeChanges()) pending_[key] = std::move(value);
  if (const uint64_t ticks = processor_->state().ticks(); ticks != ticks_) {
    ticks_ = ticks;
    last_tick_ = steady_clock::now();
  }
  return absl::OkStatus();
}

bool Master::IsTickDue() const { return steady_clock::now() - last_tick_ >= kTickEvery; }

bool Master::IsLookDue() {
  const bool is_noted = wakeup_.TakeLook();
  if (is_noted || HaveProcessesChanged() || IsTickDue()) return true;
  const std::vector<ProcessState> processes = processor_->processes();
  return std::ranges::any_of(processes, [](const ProcessState& process) {
    return process.phase() == ProcessState::STARTING || process.phase() == ProcessState::STOPPING;
  });
}

// None while the last ones are not folded: they would be said twice.
StatusOr<std::vector<std::string>> Master::RecordsForControl(bool has_looked) {
  std::vector<std::string> records;
  if (!OwnRecordsAreFolded() || IsOver()) return records;
  const auto add = [&](ControlRecord record) {
    record.set_epoch(config_.epoch());
    records.push_back(EncodeControl(record));
  };
  if (has_looked) {
    for (ControlRecord& report : processor_->Reports(seen_)) add(std::move(report));
  }
  if (!stop_ && !std::exchange(plan_was_sent_, true)) {
    ControlRecord record;
    *record.mutable_plan() = options_.plan;
    add(std::move(record));
  }
  if (stop_ && !stop_was_sent_ && processor_->phase() == MasterState::ACTIVE) {
    spdlog::info(
        "stopping the job's processes: workers first, servers last. A second Ctrl-C ends MasterApp "
        "at once; those that were not asked to end yet then run on");
    ControlRecord record;
    record.mutable_stop();
    add(std::move(record));
    stop_was_sent_ = true;
  }
  if (IsTickDue()) {
    ControlRecord record;
    record.mutable_tick();
    add(std::move(record));
  }
  if (leases_ && processor_->phase() == MasterState::ACTIVE) {
    MILLRACE_ASSIGN_OR_RETURN(std::vector<LeaseCommand> commands,
                              leases_->TakeCommands(processor_->leases()));
    for (LeaseCommand& command : commands) {
      ControlRecord record;
      *record.mutable_lease() = std::move(command);
      add(std::move(record));
    }
  }
  if (layouts_ && processor_->phase() == MasterState::ACTIVE) {
    MILLRACE_ASSIGN_OR_RETURN(std::optional<ShardLayout> layout,
                              layouts_->Look(processor_->state()));
    if (layout) {
      ControlRecord record;
      *record.mutable_layout() = *std::move(layout);
      add(std::move(record));
    }
  }
  if (!desk_) return records;
  for (TaskCommand& command : desk_->TakeCommands(processor_->tasks())) {
    ControlRecord record;
    *record.mutable_task() = std::move(command);
    add(std::move(record));
  }
  for (NodeCommand& command : node_desk_->TakeCommands(processor_->nodes())) {
    ControlRecord record;
    *record.mutable_node() = std::move(command);
    add(std::move(record));
  }
  return records;
}

void Master::AnswerCalls() {
  if (!desk_ || !IsCommitted()) return;
  desk_->Answer(processor_->tasks());
  node_desk_->Answer(processor_->nodes());
}

// A state alone, which is that of every second, waits for other records.
bool Master::IsCommitted() const {
  return pending_.empty() || (pending_.size() == 1 && pending_.contains(kStateKey));
}

bool Master::HaveProcessesChanged() const {
  return std::ranges::any_of(
      pending_, [](const auto& change) { return change.first.starts_with(kPlanProcessKey); });
}

Status Master::WriteWhatIsNew(bool has_looked) {
  MILLRACE_ASSIGN_OR_RETURN(std::vector<std::string> records, RecordsForControl(has_looked));
  const bool has_changed = !IsCommitted() || (IsOver() && !pending_.empty());
  if (records.empty() && !has_changed) return absl::OkStatus();
  Transaction transaction;
  transaction.control = std::move(records);
  transaction.plan.assign(pending_.begin(), pending_.end());
  MILLRACE_RETURN_IF_ERROR(log_->Write(transaction));
  plan_was_written_ = plan_was_sent_;
  restarts_ = 0;
  pending_.clear();
  TellNews();
  return absl::OkStatus();
}

// Why a process fails stands in its log; one that may fail without end is never given up.
void Master::TellLastWords(const JobProcesses& now) const {
  std::map<std::string, const ProcessState*> known;
  for (const ProcessState& process : told_.processes) known[ToText(process.process())] = &process;
  for (const ProcessState& process : now.processes) {
    const std::string name = ToText(process.process());
    const auto before = known.find(name);
    if (before == known.end() || process.failures() <= before->second->failures()) continue;
    const std::string words =
        LastWords(ProcessLogPath(options_.run_dir, name), before->second->incarnation());
    if (!words.empty()) spdlog::warn("last lines of the log of {}: {}", name, words);
  }
}

void Master::TellNews() {
  JobProcesses now = Now();
  for (const std::string& line : News(told_, now)) spdlog::info("{}", line);
  for (const std::string& line : NewWarnings(told_, now)) spdlog::warn("{}", line);
  if (options_.place.empty()) TellLastWords(now);
  told_ = std::move(now);
}

// ---- what is in the log may be done ----

Status Master::CarryOut() {
  for (const ProcessOrder& order : processor_->Orders(seen_)) {
    MILLRACE_RETURN_IF_ERROR(order.kind() == ProcessOrder::START ? launcher_.Start(order)
                                                                 : launcher_.Stop(order));
  }
  for (const ProcessReport& over : processor_->Over(seen_)) {
    MILLRACE_RETURN_IF_ERROR(launcher_.Forget(over.process(), over.incarnation() + 1));
  }
  return absl::OkStatus();
}

void Master::DeleteWhatIsFolded() {
  if (steady_clock::now() < next_delete_ || !pending_.empty()) return;
  next_delete_ = steady_clock::now() + kDeleteEvery;
  const Status deleted = log_->DeleteBefore(processor_->next_offset());
  if (!deleted.ok() && !IsAway(deleted)) {
    spdlog::warn("{}; the topic control grows until the cause is removed",
                 std::string(deleted.message()));
  }
}

// Nothing more is written to `control` then: what is told could else never be all folded.
bool Master::IsOver() const {
  if (!OwnRecordsAreFolded() || (!plan_was_sent_ && !stop_)) return false;
  switch (processor_->phase()) {
    case MasterState::ENDED:
    case MasterState::STOPPED:
    case MasterState::FAILED:
      return true;
    case MasterState::IDLE:
      return stop_;
    default:
      return false;
  }
}

}  // namespace

StatusOr<JobProcesses> RunMaster(const JobConfig& config, const MasterOptions& options,
                                 Launcher& launcher, MasterWakeup& wakeup,
                                 const std::atomic<bool>& stop) {
  return Master(config, options, launcher, wakeup, stop).Run();
}

}  // namespace millrace
