#include "processors/process_table.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "processors/worker_hosts.h"
#include "topics/control_codec.h"

namespace millrace {
namespace {

// What is still being stopped of earlier plans is in the table, too.
constexpr size_t kMostInTable = size_t{2} * kMostProcesses;

// Of one that must not be told apart from a kill: whoever sends these signals wants the process to
// end, not to learn from it. (SIGHUP, SIGINT, SIGKILL, SIGTERM)
constexpr int kSignalsFromOutside[] = {1, 2, 9, 15};
// Exit codes of this project's programs (apps/program.h).
constexpr int kExitDone = 0;
constexpr int kExitWrongUsage = 2;
constexpr int kExitBySignal = 130;

bool WasDone(const ProcessEnd& end) {
  return end.cause() == ProcessEnd::EXITED && end.code() == kExitDone;
}

bool WasKilled(const ProcessEnd& end) {
  if (end.cause() == ProcessEnd::EXITED) return end.code() == kExitBySignal;
  if (end.cause() != ProcessEnd::SIGNALED) return end.cause() == ProcessEnd::UNKNOWN;
  return std::ranges::find(kSignalsFromOutside, end.code()) != std::end(kSignalsFromOutside);
}

bool WouldFailAgain(const ProcessEnd& end) {
  return end.cause() == ProcessEnd::NOT_STARTED ||
         (end.cause() == ProcessEnd::EXITED && end.code() == kExitWrongUsage);
}

// No job comes to the limit; but a damaged plan may.
uint32_t OneMore(uint32_t count) { return std::min(count + 1, ProcessTable::kMostEndsCounted); }

// After so many failures in a row, at least one.
uint64_t BackOffAfter(uint32_t failures) {
  uint64_t ticks = 1;
  while (ticks < ProcessTable::kMostBackOff && --failures > 0) ticks *= 2;
  return ticks;
}

bool HasCommand(const ProcessState& process, const std::vector<std::string>& command) {
  return std::ranges::equal(process.command(), command);
}

}  // namespace

Status ProcessTable::Apply(const ProcessPlan& plan) {
  if (phase_ == MasterState::ENDED) {
    return absl::FailedPreconditionError(
        "the job has ended, so nothing is started. Give another --job to begin a new one");
  }
  const bool is_present = plan.SerializeAsString() == plan_.SerializeAsString();
  if (is_present && phase_ == MasterState::ACTIVE) return absl::OkStatus();
  if (CountWith(plan) > kMostInTable) {
    return absl::FailedPreconditionError(
        "processes of earlier plans are still being stopped, too many to begin others. Give the "
        "plan again when they have ended");
  }
  const uint32_t shards_before = ShardsNow();
  const ProcessPlan before = std::exchange(plan_, plan);
  phase_ = MasterState::ACTIVE;
  failure_.clear();
  IndexGroups();
  AddWanted();
  DealShards(before, shards_before);
  for (auto& [key, process] : processes_) {
    const ProcessGroup* group = GroupOf(key);
    if (group == nullptr || HoldsSlot(process.phase())) continue;
    const bool has_ended = process.phase() == ProcessState::ENDED;
    if (has_ended && HasCommand(process, CommandOf(*group, key.second))) continue;
    Move(process, ProcessEvent::kAnotherChance);
  }
  Settle();
  return absl::OkStatus();
}

// How many the table will have: those of the plan, and others that must be stopped first.
size_t ProcessTable::CountWith(const ProcessPlan& plan) const {
  std::map<std::string, uint32_t> wanted;
  size_t count = 0;
  for (const ProcessGroup& group : plan.groups()) {
    wanted[group.name()] = group.count();
    count += group.count();
  }
  for (const auto& [key, process] : processes_) {
    const auto group = wanted.find(key.first);
    const bool is_wanted = group != wanted.end() && key.second < group->second;
    if (!is_wanted && HoldsSlot(process.phase())) ++count;
  }
  return count;
}

void ProcessTable::IndexGroups() {
  groups_.clear();
  for (int i = 0; i < plan_.groups_size(); ++i) groups_[plan_.groups(i).name()] = i;
}

void ProcessTable::AddWanted() {
  for (const ProcessGroup& group : plan_.groups()) {
    for (uint32_t rank = 0; rank < group.count(); ++rank) {
      const auto [entry, is_new] = processes_.try_emplace(Key(group.name(), rank));
      if (!is_new) continue;
      ProcessState& process = entry->second;
      process.mutable_process()->set_group(group.name());
      process.mutable_process()->set_rank(rank);
      process.set_phase_since_tick(ticks_);
      changed_.insert(entry->first);
    }
  }
}

Status ProcessTable::Report(const ProcessReport& report) {
  const auto entry = processes_.find(KeyOf(report.process()));
  const bool is_here = entry != processes_.end();
  const uint64_t newest = is_here ? entry->second.incarnation() : incarnations_;
  if (report.incarnation() > newest) {
    return absl::InvalidArgumentError("a report of incarnation " +
                                      std::to_string(report.incarnation()) + " of " +
                                      ToText(report.process()) + ", which was never to be started");
  }
  if (!is_here || report.incarnation() < newest) return absl::OkStatus();
  ProcessState& process = entry->second;
  const ProcessEvent event = EventOf(report, process);
  if (FindTransition(process.phase(), event) == nullptr) return absl::OkStatus();
  if (report.has_end()) *process.mutable_last_end() = report.end();
  Move(process, event);
  Settle();
  return absl::OkStatus();
}

ProcessEvent ProcessTable::EventOf(const ProcessReport& report, const ProcessState& process) const {
  if (!report.has_end()) return ProcessEvent::kRuns;
  if (process.phase() == ProcessState::STOPPING) return ProcessEvent::kGone;
  const ProcessEnd& end = report.end();
  if (WasDone(end)) return ProcessEvent::kDone;
  if (WasKilled(end)) {
    const bool has_run =
        process.phase() == ProcessState::RUNNING && ticks_ > process.phase_since_tick();
    return has_run ? ProcessEvent::kKilled : ProcessEvent::kKilledSoon;
  }
  const ProcessGroup* group = GroupOf(KeyOf(process.process()));
  const bool is_one_too_many = group != nullptr && group->has_most_failures() &&
                               process.failures() + 1 >= group->most_failures();
  return is_one_too_many || WouldFailAgain(end) ? ProcessEvent::kHopeless : ProcessEvent::kFailed;
}

void ProcessTable::Tick() {
  ++ticks_;
  for (auto& [key, process] : processes_) {
    const bool is_steady = process.phase() == ProcessState::RUNNING && process.failures() > 0 &&
                           ticks_ - process.phase_since_tick() >= kSteadyTicks;
    if (is_steady) Move(process, ProcessEvent::kSteady);
  }
  Settle();
}

Status ProcessTable::Stop() {
  if (phase_ == MasterState::IDLE) {
    return absl::FailedPreconditionError("there is no plan yet, so there is nothing to stop");
  }
  if (phase_ == MasterState::ACTIVE) phase_ = MasterState::STOPPING;
  Settle();
  return absl::OkStatus();
}

void ProcessTable::Move(ProcessState& process, ProcessEvent event) {
  const ProcessTransition* transition = FindTransition(process.phase(), event);
  MILLRACE_CHECK(transition != nullptr);
  changed_.insert(KeyOf(process.process()));
  if (transition->to != transition->from) {
    process.set_phase(transition->to);
    process.set_phase_since_tick(ticks_);
  }
  switch (transition->failures) {
    case ProcessTransition::Failures::kKept:
      break;
    case ProcessTransition::Failures::kCounted:
      process.set_failures(OneMore(process.failures()));
      break;
    case ProcessTransition::Failures::kForgotten:
      process.set_failures(0);
      break;
  }
  switch (transition->not_before) {
    case ProcessTransition::NotBefore::kNow:
      process.set_not_before_tick(0);
      break;
    case ProcessTransition::NotBefore::kNextTick:
      process.set_not_before_tick(ticks_ + 1);
      break;
    case ProcessTransition::NotBefore::kBackOff:
      process.set_not_before_tick(ticks_ + BackOffAfter(process.failures()));
      break;
  }
  if (event == ProcessEvent::kMayStart) Begin(process);
}

void ProcessTable::Begin(ProcessState& process) {
  const Key key = KeyOf(process.process());
  const ProcessGroup* group = GroupOf(key);
  MILLRACE_CHECK(group != nullptr);
  if (process.incarnation() > 0) process.set_restarts(OneMore(process.restarts()));
  process.set_incarnation(++incarnations_);
  process.clear_command();
  for (const std::string& argument : CommandOf(*group, key.second)) process.add_command(argument);
}

// Of what is changed here, each step leaves to the ones behind it what follows from it; what it
// makes necessary before it comes with the next event, the report of what it has stopped.
void ProcessTable::Settle() {
  if (phase_ != MasterState::ACTIVE && phase_ != MasterState::STOPPING) return;
  RemoveUnwanted();
  if (phase_ == MasterState::ACTIVE) FailIfTooFewAreLeft();
  if (phase_ == MasterState::ACTIVE) {
    StopOutdated();
    StopSurplus();
    StartWaiting();
  } else {
    StopLowest();
  }
  HostWorkers();
  EndIfOver();
  MILLRACE_CHECK(Check().ok());
}

void ProcessTable::RemoveUnwanted() {
  for (auto entry = processes_.begin(); entry != processes_.end();) {
    auto& [key, process] = *entry;
    if (GroupOf(key) == nullptr && !HoldsSlot(process.phase())) {
      changed_.insert(key);
      entry = processes_.erase(entry);
      continue;
    }
    if (GroupOf(key) == nullptr && IsToRun(process.phase())) {
      Move(process, ProcessEvent::kMustStop);
    }
    ++entry;
  }
}

void ProcessTable::FailIfTooFewAreLeft() {
  const ProcessGroup* group = GroupWithTooFew();
  if (group == nullptr) return;
  phase_ = MasterState::STOPPING;
  failure_ = FailureOf(*group);
}

const ProcessGroup* ProcessTable::GroupWithTooFew() const {
  std::map<std::string, uint32_t> failed;
  for (const auto& [key, process] : processes_) {
    if (process.phase() == ProcessState::FAILED) ++failed[key.first];
  }
  for (const auto& [name, count] : failed) {
    const auto place = groups_.find(name);
    if (place == groups_.end()) continue;
    const ProcessGroup& group = plan_.groups(place->second);
    if (count > group.count() - group.least()) return &group;
  }
  return nullptr;
}

// By the one that failed last.
std::string ProcessTable::FailureOf(const ProcessGroup& group) const {
  const ProcessState* last = nullptr;
  uint32_t left = group.count();
  for (uint32_t rank = 0; rank < group.count(); ++rank) {
    const ProcessState& process = processes_.at(Key(group.name(), rank));
    if (process.phase() != ProcessState::FAILED) continue;
    --left;
    if (last == nullptr || process.phase_since_tick() > last->phase_since_tick()) last = &process;
  }
  MILLRACE_CHECK(last != nullptr);
  std::string text = ToText(last->process()) + " has failed for good";
  if (last->failures() > 1) text += ", " + std::to_string(last->failures()) + " times in a row";
  return text + ": " + ToText(last->last_end()) + ". Of the " + std::to_string(group.count()) +
         " processes of the group " + group.name() + ", " + std::to_string(left) +
         " are left, and the job needs " + std::to_string(group.least());
}

// False of a group of the job's end while others are not over.
bool ProcessTable::MayRunYet(const Key& key) const {
  const ProcessGroup* of = GroupOf(key);
  if (of == nullptr || !of->at_end()) return true;
  return std::ranges::all_of(processes_, [this](const auto& entry) {
    const ProcessGroup* group = GroupOf(entry.first);
    if (group != nullptr && group->at_end()) return true;
    const ProcessState::Phase phase = entry.second.phase();
    return phase == ProcessState::ENDED || phase == ProcessState::FAILED;
  });
}

void ProcessTable::StopOutdated() {
  for (auto& [key, process] : processes_) {
    if (!IsToRun(process.phase())) continue;
    const bool is_as_planned = HasCommand(process, CommandOf(*GroupOf(key), key.second));
    if (is_as_planned && MayRunYet(key)) continue;
    Move(process, ProcessEvent::kMustStop);
  }
}

void ProcessTable::StopSurplus() {
  if (plan_.slots() == 0) return;
  for (size_t live = Count(IsToRun); live > plan_.slots(); --live) {
    Move(*LowestBelow(std::numeric_limits<int64_t>::max()), ProcessEvent::kMustStop);
  }
}

void ProcessTable::StartWaiting() {
  std::vector<std::pair<int64_t, Key>> waiting;  // the higher priority first, then by name
  for (const auto& [key, process] : processes_) {
    const bool may_start = process.phase() == ProcessState::WAITING &&
                           process.not_before_tick() <= ticks_ && MayRunYet(key);
    if (may_start) waiting.emplace_back(-PriorityOf(key), key);
  }
  std::ranges::sort(waiting);
  const size_t slots =
      plan_.slots() == 0 ? std::numeric_limits<size_t>::max() : size_t{plan_.slots()};
  size_t taken = Count(HoldsSlot);
  // Slots that are taken or promised, without those that will be free when their process has ended.
  size_t promised = Count(IsToRun);
  for (const auto& [below, key] : waiting) {
    if (taken < slots) {
      Move(processes_.at(key), ProcessEvent::kMayStart);
      ++taken;
      ++promised;
    } else if (promised < slots) {
      ++promised;
    } else if (ProcessState* lowest = LowestBelow(-below); lowest != nullptr) {
      Move(*lowest, ProcessEvent::kMustStop);
    } else {
      return;
    }
  }
}

ProcessState* ProcessTable::LowestBelow(int64_t priority) {
  ProcessState* lowest = nullptr;
  for (auto& [key, process] : processes_) {
    if (!IsToRun(process.phase()) || PriorityOf(key) >= priority) continue;
    lowest = &process;
    priority = PriorityOf(key) + 1;  // of equal ones the last
  }
  return lowest;
}

void ProcessTable::StopLowest() {
  int64_t lowest = std::numeric_limits<int64_t>::max();
  for (auto& [key, process] : processes_) {
    if (process.phase() == ProcessState::WAITING) Move(process, ProcessEvent::kJobStops);
    if (HoldsSlot(process.phase())) lowest = std::min(lowest, PriorityOf(key));
  }
  for (auto& [key, process] : processes_) {
    if (IsToRun(process.phase()) && PriorityOf(key) == lowest) {
      Move(process, ProcessEvent::kMustStop);
    }
  }
}

bool ProcessTable::MayHost(const ProcessState& process) const {
  const ProcessGroup* const group = GroupOf(KeyOf(process.process()));
  return process.phase() == ProcessState::RUNNING && group != nullptr &&
         group->logical_workers() > 0;
}

uint32_t ProcessTable::WorkersOf(const ProcessGroup& group) const {
  return group.logical_workers() > 0 ? std::max(group.logical_workers(), workers_) : 0;
}

void ProcessTable::HaveWorkers(uint32_t workers, std::set<uint32_t> idle) {
  if (workers <= workers_ && idle == idle_workers_) return;
  workers_ = std::max(workers, workers_);
  idle_workers_ = std::move(idle);
  Settle();
}

void ProcessTable::HostWorkers() {
  const ProcessGroup* group = nullptr;
  std::vector<WorkerHost> hosts;
  for (auto& [key, process] : processes_) {
    if (MayHost(process)) {
      group = GroupOf(key);
      hosts.push_back({key.second,
                       ticks_ - process.phase_since_tick(),
                       {process.workers().begin(), process.workers().end()}});
    } else if (!process.workers().empty()) {
      process.clear_workers();
      changed_.insert(key);
    }
  }
  if (group == nullptr) return;
  AssignWorkers(WorkersOf(*group), idle_workers_, group->count(), hosts);
  for (const WorkerHost& host : hosts) {
    const Key key(group->name(), host.rank);
    auto& workers = *processes_.at(key).mutable_workers();
    if (std::ranges::equal(workers, host.workers)) continue;
    workers.Assign(host.workers.begin(), host.workers.end());
    changed_.insert(key);
  }
}

void ProcessTable::EndIfOver() {
  if (Count(HoldsSlot) > 0) return;
  const bool all_are_done = std::ranges::all_of(processes_, [](const auto& entry) {
    const ProcessState::Phase phase = entry.second.phase();
    return phase == ProcessState::ENDED || phase == ProcessState::FAILED;
  });
  // (Whoever has no processes deals out tasks, and does not know who comes with another data set.)
  const bool has_processes = plan_.groups_size() > 0;
  if (has_processes && all_are_done && failure_.empty() && GroupWithTooFew() == nullptr) {
    phase_ = MasterState::ENDED;
  } else if (phase_ == MasterState::STOPPING) {
    phase_ = failure_.empty() ? MasterState::STOPPED : MasterState::FAILED;
  }
}

size_t ProcessTable::Count(bool (*is)(ProcessState::Phase)) const {
  return static_cast<size_t>(std::ranges::count_if(
      processes_, [is](const auto& entry) { return is(entry.second.phase()); }));
}

const ProcessGroup* ProcessTable::GroupOf(const Key& key) const {
  const auto place = groups_.find(key.first);
  if (place == groups_.end()) return nullptr;
  const ProcessGroup& group = plan_.groups(place->second);
  return key.second < group.count() ? &group : nullptr;
}

int64_t ProcessTable::PriorityOf(const Key& key) const {
  const ProcessGroup* group = GroupOf(key);
  return group == nullptr ? -1 : int64_t{group->priority()};
}

bool ProcessTable::MayRun(const Key& key, uint64_t incarnation) const {
  const auto entry = processes_.find(key);
  return entry != processes_.end() && entry->second.incarnation() == incarnation &&
         HoldsSlot(entry->second.phase());
}

}  // namespace millrace
