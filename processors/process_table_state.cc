// ProcessTable's state to and from the messages that `plan` has, and what always holds of it.
#include <algorithm>
#include <string>
#include <utility>

#include "processors/process_table.h"
#include "topics/control_codec.h"
#include "topics/message_codec.h"

namespace millrace {
namespace {

// Counters that no job comes to; below, nothing that is added to them overflows.
constexpr uint64_t kMostCounted = uint64_t{1} << 60;
constexpr size_t kMostFailureTextBytes = 10'000;

Status BadTable(const std::string& reason) { return absl::InvalidArgumentError(reason); }

bool MayStandIn(MasterState::Phase job, ProcessState::Phase process) {
  switch (process) {
    case ProcessState::WAITING:
      return job == MasterState::ACTIVE;
    case ProcessState::STARTING:
    case ProcessState::RUNNING:
    case ProcessState::STOPPING:
      return job == MasterState::ACTIVE || job == MasterState::STOPPING;
    case ProcessState::ENDED:
    case ProcessState::FAILED:
      return job != MasterState::IDLE;
    case ProcessState::STOPPED:
      return job == MasterState::STOPPING || job == MasterState::STOPPED ||
             job == MasterState::FAILED;
    default:  // of a newer version
      return false;
  }
}

bool WasStarted(ProcessState::Phase phase) {
  return phase != ProcessState::WAITING && phase != ProcessState::STOPPED;
}

}  // namespace

void ProcessTable::Save(MasterState& state) const {
  state.set_phase(phase_);
  if (phase_ != MasterState::IDLE) *state.mutable_plan() = plan_;
  state.set_failure(failure_);
  state.set_ticks(ticks_);
  state.set_incarnations(incarnations_);
  if (layout_) *state.mutable_layout() = *layout_;
  state.set_next_shards(next_shards_);
}

Status ProcessTable::Load(const MasterState& state, Processes processes, uint32_t workers,
                          std::set<uint32_t> idle) {
  workers_ = workers;
  idle_workers_ = std::move(idle);
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("ticks:", state.ticks(), kMostCounted));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("incarnations:", state.incarnations(), kMostCounted));
  MILLRACE_RETURN_IF_ERROR(
      CheckAtMost("bytes of the failure:", state.failure().size(), kMostFailureTextBytes));
  if (state.phase() != MasterState::IDLE) MILLRACE_RETURN_IF_ERROR(CheckPlan(state.plan()));
  for (const auto& [key, process] : processes) {
    const std::string name = ToText(process.process());
    MILLRACE_RETURN_IF_ERROR(CheckProcessName(process.process()));
    MILLRACE_RETURN_IF_ERROR(
        CheckAtMost("failures of " + name + ":", process.failures(), kMostEndsCounted));
    MILLRACE_RETURN_IF_ERROR(
        CheckAtMost("restarts of " + name + ":", process.restarts(), kMostEndsCounted));
    MILLRACE_RETURN_IF_ERROR(CheckProcessEnd(process.last_end()));
    size_t bytes = 0;
    for (const std::string& argument : process.command()) bytes += argument.size() + 1;
    MILLRACE_RETURN_IF_ERROR(
        CheckAtMost("bytes of the command of " + name + ":", bytes, kMostCommandBytes));
  }
  phase_ = state.phase();
  plan_ = state.plan();
  failure_ = state.failure();
  ticks_ = state.ticks();
  incarnations_ = state.incarnations();
  processes_ = std::move(processes);
  if (state.has_layout()) layout_ = state.layout();
  next_shards_ = state.next_shards();
  MILLRACE_RETURN_IF_ERROR(CheckLayout());
  IndexGroups();
  return Check();
}

// What always holds. Of a state that was loaded an error of somebody else, otherwise one of ours.
Status ProcessTable::Check() const {
  MILLRACE_RETURN_IF_ERROR(CheckJob());
  size_t wanted = 0;
  std::set<uint64_t> incarnations;
  for (const auto& [key, process] : processes_) {
    MILLRACE_RETURN_IF_ERROR(CheckProcess(key, process));
    if (GroupOf(key) != nullptr) ++wanted;
    if (IsToRun(process.phase()) && !MayRunYet(key)) {
      return BadTable(ToText(process.process()) + " is to run before the others have ended");
    }
    if (process.incarnation() > 0 && !incarnations.insert(process.incarnation()).second) {
      return BadTable(ToText(process.process()) + " has the incarnation of another process");
    }
  }
  size_t planned = 0;
  for (const ProcessGroup& group : plan_.groups()) planned += group.count();
  if (wanted != planned) return BadTable("processes of the plan are missing");
  if (plan_.slots() > 0 && Count(IsToRun) > plan_.slots()) {
    return BadTable("more processes are to run than slots are there");
  }
  MILLRACE_RETURN_IF_ERROR(CheckShards());
  return CheckWorkers();
}

Status ProcessTable::CheckWorkers() const {
  std::set<uint32_t> hosted;
  for (const auto& [key, process] : processes_) {
    if (process.workers().empty()) continue;
    const std::string name = ToText(process.process());
    if (!MayHost(process)) return BadTable(name + " hosts workers, but does not run for that");
    for (const uint32_t worker : process.workers()) {
      if (worker >= WorkersOf(*GroupOf(key))) {
        return BadTable(name + " hosts a worker that the job does not have");
      }
      if (idle_workers_.contains(worker)) {
        return BadTable(name + " hosts a worker that has nothing to do any more");
      }
      if (!hosted.insert(worker).second) return BadTable(name + " hosts a worker of another");
    }
    if (!std::ranges::is_sorted(process.workers())) {
      return BadTable("the workers of " + name + " are not in their order");
    }
  }
  return absl::OkStatus();
}

Status ProcessTable::CheckJob() const {
  if (!MasterState::Phase_IsValid(phase_)) return BadTable("the job is in a phase not known");
  const bool has_plan = !plan_.groups().empty() || !plan_.run_dir().empty();
  if ((phase_ == MasterState::IDLE) == has_plan) {
    return BadTable("the job has a plan and is idle, or none and is not");
  }
  const bool may_have_failed = phase_ == MasterState::STOPPING || phase_ == MasterState::FAILED;
  if (!failure_.empty() && !may_have_failed) return BadTable("the job has a failure and goes on");
  if (failure_.empty() && phase_ == MasterState::FAILED) {
    return BadTable("the job has failed without a failure");
  }
  return absl::OkStatus();
}

Status ProcessTable::CheckProcess(const Key& key, const ProcessState& process) const {
  const std::string name = ToText(process.process());
  if (KeyOf(process.process()) != key) return BadTable(name + " is in another's place");
  if (!MayStandIn(phase_, process.phase())) {
    return BadTable(name + " is in a phase that the job's does not allow");
  }
  if (GroupOf(key) == nullptr && process.phase() != ProcessState::STOPPING) {
    return BadTable(name + " is not in the plan");
  }
  const bool was_started = process.incarnation() > 0;
  if (was_started == process.command().empty() || (WasStarted(process.phase()) && !was_started)) {
    return BadTable(name + " has no incarnation or no command");
  }
  if (process.incarnation() > incarnations_) {
    return BadTable(name + " has an incarnation that is still to come");
  }
  if (process.phase_since_tick() > ticks_ || process.not_before_tick() > ticks_ + kMostBackOff) {
    return BadTable(name + " has a tick that is still to come");
  }
  return absl::OkStatus();
}

}  // namespace millrace
