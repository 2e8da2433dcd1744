// Records of `control` and `plan` of any content: refused with a reason, or the master that takes
// them is what is restored from what it leaves, and breaks no invariant.
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "processors/master_processor.h"
#include "tests/fuzz/mutate_message.h"
#include "tests/fuzz/some_commands.h"
#include "tests/fuzz/target.h"
#include "topics/control_codec.h"

namespace millrace::fuzz {
namespace {

constexpr uint64_t kEpoch = 1;

using Plan = std::map<std::string, std::string>;

ProcessPlan SomePlan(ByteSource& bytes) {
  ProcessPlan plan;
  for (const char* name : {"server", "producer", "worker"}) {
    ProcessGroup& group = *plan.add_groups();
    group.set_name(name);
    group.set_count(1 + static_cast<uint32_t>(bytes.Below(3)));
    group.set_priority(static_cast<uint32_t>(bytes.Below(3)));
    group.add_command("/bin/true");
    if (bytes.Chance(64)) group.add_command("--rank={rank}");
    if (bytes.Chance(64)) group.set_most_failures(2);
    if (bytes.Chance(64)) group.set_least(1);
  }
  if (bytes.Chance(64)) plan.set_slots(4);
  if (bytes.Chance(128)) {
    plan.mutable_groups(0)->set_shards(1 + static_cast<uint32_t>(bytes.Below(4)));
  }
  return plan;
}

ControlRecord SomeRecord(const MasterProcessor& master, ByteSource& bytes) {
  ControlRecord record;
  record.set_epoch(kEpoch);
  const std::vector<ProcessState> processes = master.processes();
  switch (processes.empty() ? 0 : bytes.Below(22)) {
    case 0:
      *record.mutable_plan() = SomePlan(bytes);
      break;
    case 1:
      record.mutable_stop();
      break;
    case 2:
    case 3:
      record.mutable_tick();
      break;
    case 8:
    case 9:
    case 10:
      *record.mutable_node() = SomeNodeCommand(master.nodes(), bytes);
      break;
    case 11:
    case 12:
    case 13:
    case 14:
    case 15:
      *record.mutable_task() = SomeTaskCommand(master.tasks(), bytes);
      break;
    case 16:
    case 17:
    case 18:
    case 19:
      *record.mutable_lease() = SomeLeaseCommand(master.leases(), bytes);
      break;
    case 20:
    case 21:  // also of what is not there
      record.mutable_move()->set_shard(static_cast<uint32_t>(bytes.Below(5)));
      record.mutable_move()->set_rank(static_cast<uint32_t>(bytes.Below(4)));
      break;
    default: {
      const ProcessState& process = processes[bytes.Below(processes.size())];
      ProcessReport& report = *record.mutable_report();
      *report.mutable_process() = process.process();
      report.set_incarnation(process.incarnation());
      if (bytes.Chance(128)) {
        report.mutable_end()->set_cause(static_cast<ProcessEnd::Cause>(bytes.Below(5)));
        report.mutable_end()->set_code(static_cast<int>(bytes.Below(3)));
      }
    }
  }
  return record;
}

void WriteTo(Plan& plan, MasterProcessor& master) {
  for (auto& [key, value] : master.TakeChanges()) {
    if (value) {
      plan[key] = *std::move(value);
    } else {
      plan.erase(key);
    }
  }
}

Plan PlanOf(const MasterProcessor& master) {
  Plan all;
  all["state"] = master.state().SerializeAsString();
  for (const ProcessState& process : master.processes()) {
    all[ToText(process.process())] = process.SerializeAsString();
  }
  for (const auto& [name, set] : master.tasks().sets()) all[name] = set.SerializeAsString();
  for (const auto& [key, task] : master.tasks().tasks()) {
    all[std::to_string(key.first) + ":" + key.second] = task.SerializeAsString();
  }
  for (const auto& [key, member] : master.nodes().members().members()) {
    all["member:" + key.first + std::to_string(key.second)] = member.SerializeAsString();
  }
  for (const auto& [name, barrier] : master.nodes().barriers().barriers()) {
    all["barrier:" + name] = master.nodes().barriers().StateOf(name).SerializeAsString();
  }
  for (const auto& [number, worker] : master.leases().workers()) {
    all["lease:" + std::to_string(number)] = worker.SerializeAsString();
  }
  for (const auto& [partition, input] : master.leases().inputs()) {
    all["input:" + std::to_string(partition)] = input.SerializeAsString();
  }
  all["free-leases"] = master.leases().SaveFree().SerializeAsString();
  return all;
}

// Some record of it is another now.
void MutatePlan(Plan& plan, ByteSource& bytes) {
  if (plan.empty()) return;
  auto record = plan.begin();
  std::advance(record, bytes.Below(plan.size()));
  if (record->first == "state") {
    MutateFrame<MasterState>(record->second, bytes);
  } else if (record->first.starts_with("task-set:")) {
    MutateFrame<TaskSetState>(record->second, bytes);
  } else if (record->first.starts_with("task:")) {
    MutateFrame<TaskState>(record->second, bytes);
  } else if (record->first.starts_with("member:")) {
    MutateFrame<MemberState>(record->second, bytes);
  } else if (record->first.starts_with("barrier:")) {
    MutateFrame<BarrierState>(record->second, bytes);
  } else if (record->first.starts_with("lease:")) {
    MutateFrame<WorkerLeases>(record->second, bytes);
  } else if (record->first.starts_with("input:")) {
    MutateFrame<InputState>(record->second, bytes);
  } else if (record->first == "free-leases") {
    MutateFrame<FreeLeases>(record->second, bytes);
  } else {
    MutateFrame<ProcessState>(record->second, bytes);
  }
}

}  // namespace

void FuzzOne(ByteSource& bytes) {
  MasterProcessor master(kEpoch);
  Plan plan;
  while (!bytes.empty()) {
    std::string value = EncodeControl(SomeRecord(master, bytes));
    if (bytes.Chance(64)) MutateFrame<ControlRecord>(value, bytes);
    const uint64_t unusable = master.state().unusable();
    const std::string reason = master.Fold(master.next_offset(), value);
    MILLRACE_CHECK(reason.empty() == (master.state().unusable() == unusable));
    WriteTo(plan, master);
    StatusOr<MasterProcessor> restored = MasterProcessor::Restore(kEpoch, plan);
    MILLRACE_CHECK(restored.ok() && PlanOf(*restored) == PlanOf(master));
    master.Orders({});
    if (!bytes.Chance(16)) continue;
    Plan mutated = plan;
    MutatePlan(mutated, bytes);
    restored = MasterProcessor::Restore(kEpoch, mutated);
    if (!restored.ok()) {
      MILLRACE_CHECK(!restored.status().message().empty());
      continue;
    }
    plan = std::move(mutated);
    master = *std::move(restored);
  }
}

}  // namespace millrace::fuzz
