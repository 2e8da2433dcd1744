#include "processors/master_processor.h"

#include "base/check.h"
#include "base/printable.h"
#include "topics/control_codec.h"
#include "topics/plan_codec.h"
#include "topics/process_name.h"

namespace millrace {
namespace {

constexpr std::string_view kStateKey = "state";
constexpr std::string_view kTaskSetKey = "task-set:";
constexpr std::string_view kTaskKey = "task:";
constexpr std::string_view kMemberKey = "member:";
constexpr std::string_view kBarrierKey = "barrier:";
constexpr std::string_view kFreeLeasesKey = "free-leases";
constexpr int64_t kMostOffset = int64_t{1} << 62;

std::string PlanKeyOf(const TaskManager::Key& task) {
  return std::string(kTaskKey) + std::to_string(task.first) + ":" + task.second;
}

std::string PlanKeyOf(const MemberState& member) {
  return std::string(kMemberKey) + member.role() + ":" + std::to_string(member.rank());
}

// A master that begins with less than all of it would start what runs already.
Status NotOurPlan(const std::string& reason) {
  return absl::InvalidArgumentError(
      "the topic plan cannot be used, it is damaged or of another version: " + reason +
      ". Go on with the version that wrote it; or stop the job's processes, delete the topics "
      "control and plan and the run folder, and start the master again");
}

Status CheckLogFields(const MasterState& state, uint64_t epoch) {
  if (state.epoch() != epoch) {
    return absl::InvalidArgumentError(
        "the topic plan is of job epoch " + std::to_string(state.epoch()) + ", not " +
        std::to_string(epoch) +
        ". Give that --job-epoch; or stop the job's processes and delete "
        "its topics and run folder; or use another --job");
  }
  if (state.next_offset() >= 0 && state.next_offset() <= kMostOffset) return absl::OkStatus();
  return NotOurPlan("its offset " + std::to_string(state.next_offset()) + " is out of range");
}

// The records of `plan`, read.
struct PlanContent {
  MasterState state;
  bool has_state = false;
  ProcessTable::Processes processes;
  TaskManager::Sets sets;
  TaskManager::Tasks tasks;
  Membership::Members members;
  std::map<std::string, BarrierState> barriers;
  LeaseTable::Workers leases;
  LeaseTable::Inputs inputs;
  std::optional<FreeLeases> free_leases;

  // The key that the record should have. InvalidArgument: it is no such record.
  StatusOr<std::string> Take(const std::string& key, const std::string& value) {
    if (key == kStateKey) {
      MILLRACE_RETURN_IF_ERROR(DecodePlanValue(value, state));
      has_state = true;
      return key;
    }
    if (key.starts_with(kTaskSetKey)) {
      TaskSetState set;
      MILLRACE_RETURN_IF_ERROR(DecodePlanValue(value, set));
      const std::string name = set.spec().name();
      sets[name] = std::move(set);
      return std::string(kTaskSetKey) + name;
    }
    if (key.starts_with(kTaskKey)) {
      TaskState task;
      MILLRACE_RETURN_IF_ERROR(DecodePlanValue(value, task));
      const TaskManager::Key place(task.number(), task.set());
      tasks[place] = std::move(task);
      return PlanKeyOf(place);
    }
    if (key.starts_with(kMemberKey)) {
      MemberState member;
      MILLRACE_RETURN_IF_ERROR(DecodePlanValue(value, member));
      std::string own_key = PlanKeyOf(member);
      members[Membership::KeyOf(member)] = std::move(member);
      return own_key;
    }
    if (key.starts_with(kBarrierKey)) {
      BarrierState barrier;
      MILLRACE_RETURN_IF_ERROR(DecodePlanValue(value, barrier));
      const std::string name = barrier.name();
      barriers[name] = std::move(barrier);
      return std::string(kBarrierKey) + name;
    }
    if (key.starts_with(kPlanLeaseKey) || key.starts_with(kPlanInputKey) || key == kFreeLeasesKey) {
      return TakeLeases(key, value);
    }
    ProcessState process;
    MILLRACE_RETURN_IF_ERROR(DecodePlanValue(value, process));
    const ProcessName name = process.process();
    processes[ProcessTable::KeyOf(name)] = std::move(process);
    return ProcessPlanKey(name);
  }

  StatusOr<std::string> TakeLeases(const std::string& key, const std::string& value) {
    if (key.starts_with(kPlanLeaseKey)) {
      WorkerLeases worker;
      MILLRACE_RETURN_IF_ERROR(DecodePlanValue(value, worker));
      const uint32_t number = worker.worker();
      leases[number] = std::move(worker);
      return std::string(kPlanLeaseKey) + std::to_string(number);
    }
    if (key.starts_with(kPlanInputKey)) {
      InputState input;
      MILLRACE_RETURN_IF_ERROR(DecodePlanValue(value, input));
      const uint32_t partition = input.partition();
      inputs[partition] = std::move(input);
      return std::string(kPlanInputKey) + std::to_string(partition);
    }
    MILLRACE_RETURN_IF_ERROR(DecodePlanValue(value, free_leases.emplace()));
    return key;
  }
};

}  // namespace

StatusOr<MasterProcessor> MasterProcessor::Restore(uint64_t epoch,
                                                   const std::map<std::string, std::string>& plan) {
  MasterProcessor processor(epoch);
  if (plan.empty()) return processor;
  PlanContent content;
  for (const auto& [key, value] : plan) {
    const StatusOr<std::string> own_key = content.Take(key, value);
    if (!own_key.ok()) {
      return NotOurPlan("key " + Printable(key, 100) + ": " +
                        std::string(TextOf(own_key.status())));
    }
    if (key != *own_key) {
      return NotOurPlan("the record of the key " + Printable(key, 100) + " has another name");
    }
  }
  if (!content.has_state) return NotOurPlan("its record of the key state is missing");
  const MasterState& state = content.state;
  MILLRACE_RETURN_IF_ERROR(CheckLogFields(state, epoch));
  Status loaded = processor.leases_.Load(std::move(content.leases), std::move(content.inputs),
                                         content.free_leases ? &*content.free_leases : nullptr);
  if (loaded.ok()) {
    loaded =
        processor.table_.Load(state, std::move(content.processes), processor.leases_.workers_end(),
                              processor.leases_.IdleWorkers());
  }
  if (loaded.ok()) {
    loaded = processor.tasks_.Load(state, std::move(content.sets), std::move(content.tasks));
  }
  if (loaded.ok()) {
    loaded = processor.nodes_.Load(state, std::move(content.members), content.barriers);
  }
  if (!loaded.ok()) return NotOurPlan(std::string(TextOf(loaded)));
  processor.next_offset_ = Offset(state.next_offset());
  processor.unusable_ = state.unusable();
  return processor;
}

std::string MasterProcessor::Fold(Offset offset, std::string_view value) {
  if (offset < next_offset_) return "";
  next_offset_ = offset + 1;
  changed_ = true;
  const StatusOr<ControlRecord> record = DecodeControl(value, epoch_);
  const Status used = record.ok() ? Apply(*record) : record.status();
  if (used.ok()) return "";
  ++unusable_;
  return "record ignored: " + std::string(TextOf(used));
}

void MasterProcessor::Skip(Offset offset) {
  if (offset < next_offset_) return;
  next_offset_ = offset + 1;
  changed_ = true;
}

Status MasterProcessor::Apply(const ControlRecord& record) {
  switch (record.what_case()) {
    case ControlRecord::kPlan:
      return table_.Apply(record.plan());
    case ControlRecord::kReport:
      return Apply(record.report());
    case ControlRecord::kTick:
      table_.Tick();
      tasks_.Tick(table_.ticks());
      nodes_.Tick(table_.ticks());
      return absl::OkStatus();
    case ControlRecord::kTask:
      return tasks_.Apply(record.task(), table_.ticks());
    case ControlRecord::kNode:
      nodes_.Apply(record.node());
      return absl::OkStatus();
    case ControlRecord::kReshard:
      if (!leases_.order()) return table_.Reshard(record.reshard());
      return absl::FailedPreconditionError(
          "the job is still changing its workers, so the number of its shards cannot be changed");
    case ControlRecord::kLayout:
      return table_.HaveLayout(record.layout());
    case ControlRecord::kLease:
      if (record.lease().has_resize() && table_.next_shards() != 0) {
        return absl::FailedPreconditionError(
            "the job is still changing its shards, so the number of its workers cannot be changed");
      }
      MILLRACE_RETURN_IF_ERROR(leases_.Apply(record.lease()));
      table_.HaveWorkers(leases_.workers_end(), leases_.IdleWorkers());
      return absl::OkStatus();
    case ControlRecord::kMove:
      return table_.MoveShard(record.move());
    case ControlRecord::kStop:
      return table_.Stop();
    case ControlRecord::WHAT_NOT_SET:
      break;
  }
  MILLRACE_CHECK(false);  // DecodeControl refuses it
}

Status MasterProcessor::Apply(const ProcessReport& report) {
  const bool ends_one = report.has_end() &&
                        table_.MayRun(ProcessTable::KeyOf(report.process()), report.incarnation());
  MILLRACE_RETURN_IF_ERROR(table_.Report(report));
  if (ends_one) tasks_.EndOf(ToText(report.process()));
  return absl::OkStatus();
}

MasterState MasterProcessor::state() const {
  MasterState state;
  state.set_epoch(epoch_);
  state.set_next_offset(next_offset_);
  state.set_unusable(unusable_);
  table_.Save(state);
  tasks_.Save(state);
  nodes_.Save(state);
  return state;
}

std::vector<ProcessState> MasterProcessor::processes() const {
  std::vector<ProcessState> processes;
  for (const auto& [key, process] : table_.processes()) processes.push_back(process);
  return processes;
}

std::vector<ControlRecord> MasterProcessor::Reports(const std::vector<ProcessReport>& seen) const {
  std::vector<ControlRecord> records;
  for (ProcessReport& report : ReportsOf(table_, seen)) {
    ControlRecord& record = records.emplace_back();
    record.set_epoch(epoch_);
    *record.mutable_report() = std::move(report);
  }
  return records;
}

std::vector<std::pair<std::string, std::optional<std::string>>> MasterProcessor::TakeChanges() {
  std::vector<std::pair<std::string, std::optional<std::string>>> changes;
  for (const ProcessTable::Key& key : table_.TakeChanged()) {
    ProcessName name;
    name.set_group(key.first);
    name.set_rank(key.second);
    const auto process = table_.processes().find(key);
    std::optional<std::string> value;
    if (process != table_.processes().end()) value = EncodePlanValue(process->second);
    changes.emplace_back(ProcessPlanKey(name), std::move(value));
  }
  for (const std::string& name : tasks_.TakeChangedSets()) {
    changes.emplace_back(std::string(kTaskSetKey) + name, EncodePlanValue(tasks_.sets().at(name)));
  }
  for (const TaskManager::Key& key : tasks_.TakeChangedTasks()) {
    const auto task = tasks_.tasks().find(key);
    std::optional<std::string> value;
    if (task != tasks_.tasks().end()) value = EncodePlanValue(task->second);
    changes.emplace_back(PlanKeyOf(key), std::move(value));
  }
  AddNodeChanges(changes);
  AddLeaseChanges(changes);
  if (std::exchange(changed_, false)) changes.emplace_back(kStateKey, EncodePlanValue(state()));
  return changes;
}

void MasterProcessor::AddNodeChanges(
    std::vector<std::pair<std::string, std::optional<std::string>>>& changes) {
  for (const Membership::Key& key : nodes_.TakeChangedMembers()) {
    const MemberState& member = nodes_.members().members().at(key);
    changes.emplace_back(PlanKeyOf(member), EncodePlanValue(member));
  }
  for (const std::string& name : nodes_.TakeChangedBarriers()) {
    std::optional<std::string> value;
    if (nodes_.barriers().barriers().contains(name)) {
      value = EncodePlanValue(nodes_.barriers().StateOf(name));
    }
    changes.emplace_back(std::string(kBarrierKey) + name, std::move(value));
  }
}

void MasterProcessor::AddLeaseChanges(
    std::vector<std::pair<std::string, std::optional<std::string>>>& changes) {
  for (const uint32_t worker : leases_.TakeChangedWorkers()) {
    changes.emplace_back(std::string(kPlanLeaseKey) + std::to_string(worker),
                         EncodePlanValue(leases_.workers().at(worker)));
  }
  for (const uint32_t partition : leases_.TakeChangedInputs()) {
    changes.emplace_back(std::string(kPlanInputKey) + std::to_string(partition),
                         EncodePlanValue(leases_.inputs().at(partition)));
  }
  if (leases_.TakeFreeChanged()) {
    changes.emplace_back(kFreeLeasesKey, EncodePlanValue(leases_.SaveFree()));
  }
}

}  // namespace millrace
