#include "processors/task_manager.h"

#include <algorithm>

#include "base/check.h"
#include "base/printable.h"
#include "topics/message_codec.h"

namespace millrace {
namespace {

// Counters that no job comes to.
constexpr uint64_t kMostGivenUp = uint64_t{1} << 60;
constexpr uint64_t kMostTimeouts = uint64_t{1} << 30;

Status BadTasks(const std::string& reason) { return absl::InvalidArgumentError(reason); }

TaskManager::Key TaskKeyOf(const TaskState& task) { return {task.number(), task.set()}; }

Status CheckIsNoFollower(const TaskSetSpec& spec) {
  if (spec.follows().empty()) return absl::OkStatus();
  return BadTasks("the data set " + Printable(spec.name()) + " follows " +
                  Printable(spec.follows()) + ", and goes back with that one only");
}

}  // namespace

// ---- commands ----

Status TaskManager::Apply(const TaskCommand& command, uint64_t tick) {
  const bool is_new = std::pair(command.front(), command.number()) > std::pair(front_, number_);
  if (!is_new) return absl::OkStatus();
  front_ = command.front();
  number_ = command.number();
  return ApplyNew(command, tick);
}

Status TaskManager::ApplyNew(const TaskCommand& command, uint64_t tick) {
  switch (command.what_case()) {
    case TaskCommand::kBegin:
      return Begin(command.begin());
    case TaskCommand::kGet:
      return Get(command, tick);
    case TaskCommand::kResult:
      return Finish(command.result());
    case TaskCommand::kDelivered:
      for (const uint32_t lease : command.delivered().lease()) {
        if (TaskState* task = OfLease(lease); task != nullptr) SetTold(*task);
      }
      return absl::OkStatus();
    case TaskCommand::kUndelivered:
      for (const uint32_t lease : command.undelivered().lease()) {
        TaskState* task = OfLease(lease);
        if (task != nullptr && task->is_leased()) Release(*task);
      }
      return absl::OkStatus();
    case TaskCommand::kReset:
      return Reset(command.reset());
    case TaskCommand::kPosition:
      return GoTo(command.position());
    case TaskCommand::WHAT_NOT_SET:
      break;
  }
  MILLRACE_CHECK(false);  // CheckTaskCommand refuses it
}

Status TaskManager::Begin(const TaskSetSpec& spec) {
  const auto found = sets_.find(spec.name());
  if (found != sets_.end()) {
    // Every worker says it, and perhaps of a master with another timeout.
    for (auto& [name, set] : sets_) {
      const bool is_it = name == spec.name() || set.spec().follows() == spec.name();
      if (!is_it || set.spec().timeout_ticks() == spec.timeout_ticks()) continue;
      set.mutable_spec()->set_timeout_ticks(spec.timeout_ticks());
      changed_sets_.insert(name);
    }
    return absl::OkStatus();
  }
  const Status room = CheckRoomFor(spec);
  if (!room.ok()) return BadTasks(std::string(room.message()));
  *sets_[spec.name()].mutable_spec() = spec;
  changed_sets_.insert(spec.name());
  BeginFollowers(spec, 0);
  return absl::OkStatus();
}

Status TaskManager::CheckRoomFor(const TaskSetSpec& spec) const {
  if (sets_.contains(spec.name())) return absl::OkStatus();
  const std::vector<TaskSetSpec> followers = FollowersOf(spec);
  for (const TaskSetSpec& follower : followers) {
    if (!sets_.contains(follower.name())) continue;
    return absl::AlreadyExistsError("the data set " + Printable(follower.name()) +
                                    " is there already, and cannot follow " +
                                    Printable(spec.name()) + ": give this one another name");
  }
  if (sets_.size() + 1 + followers.size() <= kMostTaskSets) return absl::OkStatus();
  const std::string with =
      followers.empty() ? "" : " and the " + std::to_string(followers.size()) + " that follow it";
  return absl::ResourceExhaustedError(
      "the job has " + std::to_string(sets_.size()) + " of the " + std::to_string(kMostTaskSets) +
      " data sets that it may have: there is no room for " + Printable(spec.name()) + with +
      ". Train it in another job (--job)");
}

Status TaskManager::Get(const TaskCommand& command, uint64_t tick) {
  MILLRACE_RETURN_IF_ERROR(SetOf(command.get().set()).status());
  if (leases_ >= kMostLeases) {
    return BadTasks("the job has dealt out " + std::to_string(kMostLeases) +
                    " tasks, and has no numbers for more: begin a new job");
  }
  const std::vector<std::string> sets = SetsFor(command.get());
  for (const std::string& set : sets) {
    if (TaskState* untold = UntoldTo(command, set); untold != nullptr) {
      Lease(*untold, command, tick);
      return absl::OkStatus();
    }
  }
  for (const std::string& set : sets) {
    if (TaskState* next = NextOf(set); next != nullptr) {
      Lease(*next, command, tick);
      return absl::OkStatus();
    }
  }
  return absl::OkStatus();
}

// Null: there is none now.
TaskState* TaskManager::NextOf(const std::string& set) {
  if (const auto waiting = waiting_.find(set); waiting != waiting_.end()) {
    return &tasks_.at({*waiting->second.begin(), set});
  }
  if (FreeIn(set) == 0) return nullptr;
  TaskSetState& state = sets_.at(set);
  TaskState& task = Add(set, state.dealt());
  state.set_dealt(state.dealt() + 1);
  changed_sets_.insert(set);
  return &task;
}

Status TaskManager::Finish(const TaskCommand::Result& result) {
  MILLRACE_RETURN_IF_ERROR(SetOf(result.set()).status());
  TaskState* task = OfLease(result.lease());
  if (task == nullptr) return absl::OkStatus();  // said again, or too late
  if (!IsOf(*task, result.set())) {
    return BadTasks("a trainer reported a task of the data set " + Printable(task->set()) +
                    " as one of " + Printable(result.set()));
  }
  if (!result.failed()) {
    Remove(TaskKeyOf(*task));
    return absl::OkStatus();
  }
  if (!task->is_leased()) return absl::OkStatus();  // it waits already
  TaskSetState& set = sets_.at(task->set());
  set.set_last_failure(result.detail());
  changed_sets_.insert(task->set());
  task->set_failures(task->failures() + 1);
  if (task->failures() < set.spec().most_failures()) {
    Release(*task);
  } else {
    GiveUp(*task, result.detail());
  }
  return absl::OkStatus();
}

Status TaskManager::Reset(const std::string& name) {
  MILLRACE_ASSIGN_OR_RETURN(TaskSetState * set, SetOf(name));
  MILLRACE_RETURN_IF_ERROR(CheckIsNoFollower(set->spec()));
  RemoveAllOf(name);
  const TaskSetSpec spec = set->spec();
  set->Clear();
  *set->mutable_spec() = spec;
  changed_sets_.insert(name);
  BeginFollowers(spec, 0);
  return absl::OkStatus();
}

Status TaskManager::GoTo(const TaskSetPosition& position) {
  const std::string& name = position.spec().name();
  const size_t others = tasks_.size() - OpenIn(name);
  const size_t all = others + static_cast<size_t>(position.undone_size());
  MILLRACE_RETURN_IF_ERROR(
      CheckAtMost("tasks that are dealt out and not done:", all, kMostOpenTasks));
  TaskSetSpec spec = position.spec();
  if (const auto present = sets_.find(name); present != sets_.end()) {
    // What follows it, a checkpoint does not say.
    MILLRACE_RETURN_IF_ERROR(CheckIsNoFollower(present->second.spec()));
    spec.clear_evaluation();
    if (present->second.spec().has_evaluation()) {
      *spec.mutable_evaluation() = present->second.spec().evaluation();
    }
    spec.set_end_task(present->second.spec().end_task());
    MILLRACE_RETURN_IF_ERROR(CheckTaskSet(spec));
  } else {
    MILLRACE_RETURN_IF_ERROR(Begin(spec));
  }
  RemoveAllOf(name);
  TaskSetState& set = sets_[name];
  set.Clear();
  *set.mutable_spec() = spec;
  set.set_dealt(position.dealt());
  changed_sets_.insert(name);
  for (const int64_t number : position.undone()) Index({number, name}, Add(name, number));
  BeginFollowers(spec, position.dealt() - position.undone_size());
  return absl::OkStatus();
}

// ---- what happens to workers ----

void TaskManager::Tick(uint64_t tick) {
  std::vector<TaskState*> late;
  for (auto& [key, task] : tasks_) {
    const uint64_t timeout = sets_.at(task.set()).spec().timeout_ticks();
    if (!task.is_leased() || timeout == 0) continue;
    const uint64_t patience = timeout << std::min(task.timeouts(), kMostDoublings);
    if (tick - task.since_tick() >= patience) late.push_back(&task);
  }
  for (TaskState* task : late) {
    task->set_timeouts(task->timeouts() + 1);
    Lose(*task, Printable(task->worker()) + " did not report it in time");
  }
}

void TaskManager::EndOf(const std::string& worker) {
  std::vector<TaskState*> left;
  for (auto& [key, task] : tasks_) {
    if (task.is_leased() && task.worker() == worker) left.push_back(&task);
  }
  for (TaskState* task : left) Lose(*task, worker + " has ended");
}

// ---- questions ----

bool TaskManager::IsDone(const std::string& set) const {
  const TaskSetState& state = sets_.at(set);
  return state.dealt() == TasksOf(state.spec()) && OpenIn(set) == 0;
}

uint64_t TaskManager::FreeIn(const std::string& set) const {
  const TaskSetState& state = sets_.at(set);
  const auto waiting = waiting_.find(set);
  const uint64_t back = waiting == waiting_.end() ? 0 : waiting->second.size();
  const size_t room = kMostOpenTasks - std::min(kMostOpenTasks, tasks_.size());
  const bool is_follower = !state.spec().follows().empty();
  const int64_t open =
      is_follower ? TasksPerEpoch(state.spec()) * state.open_epochs() : TasksOf(state.spec());
  return back + std::min<uint64_t>(open - state.dealt(), room);
}

size_t TaskManager::OpenIn(const std::string& set) const {
  const auto open = open_.find(set);
  return open == open_.end() ? 0 : open->second;
}

TaskSetPosition TaskManager::PositionOf(const std::string& set) const {
  const TaskSetState& state = sets_.at(set);
  TaskSetPosition position;
  *position.mutable_spec() = state.spec();
  position.set_dealt(state.dealt());
  for (const auto& [key, task] : tasks_) {
    if (key.second == set) position.add_undone(key.first);
  }
  return position;
}

const TaskState* TaskManager::FoundFor(uint64_t front, uint64_t number) const {
  const auto found = untold_.find({front, number});
  return found == untold_.end() ? nullptr : &tasks_.at(found->second);
}

bool TaskManager::HasUntold(const std::string& set, const std::string& worker,
                            uint64_t front) const {
  return std::ranges::any_of(untold_, [&](const auto& entry) {
    if (entry.first.first == front || entry.second.second != set) return false;
    return tasks_.at(entry.second).worker() == worker;
  });
}

// ---- tasks ----

StatusOr<TaskSetState*> TaskManager::SetOf(const std::string& name) {
  const auto set = sets_.find(name);
  if (set != sets_.end()) return &set->second;
  return BadTasks("there is no data set " + Printable(name));
}

TaskState* TaskManager::OfLease(uint32_t lease) {
  const auto key = by_lease_.find(lease);
  return key == by_lease_.end() ? nullptr : &tasks_.at(key->second);
}

TaskState* TaskManager::UntoldTo(const TaskCommand& command, const std::string& set) {
  for (const auto& [asked, key] : untold_) {
    if (asked.first == command.front() || key.second != set) continue;
    TaskState& task = tasks_.at(key);
    if (task.worker() == command.get().worker()) return &task;
  }
  return nullptr;
}

TaskState& TaskManager::Add(const std::string& set, int64_t number) {
  const Key key(number, set);
  TaskState& task = tasks_[key];
  task.set_set(set);
  task.set_number(number);
  ++open_[set];
  changed_tasks_.insert(key);
  return task;
}

void TaskManager::Lease(TaskState& task, const TaskCommand& command, uint64_t tick) {
  const Key key = TaskKeyOf(task);
  SetTold(task);
  by_lease_.erase(task.lease());
  if (const auto waiting = waiting_.find(task.set()); waiting != waiting_.end()) {
    waiting->second.erase(task.number());
    if (waiting->second.empty()) waiting_.erase(waiting);
  }
  task.set_lease(static_cast<uint32_t>(++leases_));
  task.set_is_leased(true);
  task.set_worker(command.get().worker());
  task.set_since_tick(tick);
  task.set_front(command.front());
  task.set_command(command.number());
  Index(key, task);
  changed_tasks_.insert(key);
}

void TaskManager::SetTold(TaskState& task) {
  if (task.command() == 0) return;
  untold_.erase({task.front(), task.command()});
  task.set_front(0);
  task.set_command(0);
  changed_tasks_.insert(TaskKeyOf(task));
}

// The lease stays known: its result counts for as long as nobody else has the task.
void TaskManager::Release(TaskState& task) {
  SetTold(task);
  task.set_is_leased(false);
  waiting_[task.set()].insert(task.number());
  changed_tasks_.insert(TaskKeyOf(task));
}

void TaskManager::Lose(TaskState& task, const std::string& why) {
  if (sets_.at(task.set()).spec().most_failures() > 0) {
    Release(task);
  } else {
    GiveUp(task, why);
  }
}

void TaskManager::GiveUp(const TaskState& task, const std::string& why) {
  TaskSetState& set = sets_.at(task.set());
  set.set_given_up(set.given_up() + 1);
  set.set_last_failure(why);
  changed_sets_.insert(task.set());
  Remove(TaskKeyOf(task));
}

void TaskManager::Remove(Key key) {
  TaskState& task = tasks_.at(key);
  SetTold(task);
  by_lease_.erase(task.lease());
  if (const auto waiting = waiting_.find(key.second); waiting != waiting_.end()) {
    waiting->second.erase(key.first);
    if (waiting->second.empty()) waiting_.erase(waiting);
  }
  if (--open_.at(key.second) == 0) open_.erase(key.second);
  tasks_.erase(key);
  OpenFollowers(key.second);
  changed_tasks_.insert(std::move(key));
}

void TaskManager::RemoveAllOf(const std::string& set) {
  std::vector<Key> keys;
  for (const auto& [key, task] : tasks_) {
    if (key.second == set) keys.push_back(key);
  }
  for (Key& key : keys) Remove(std::move(key));
}

void TaskManager::Index(const Key& key, const TaskState& task) {
  if (!task.is_leased()) waiting_[key.second].insert(key.first);
  if (task.lease() > 0) by_lease_[task.lease()] = key;
  if (task.command() > 0) untold_[{task.front(), task.command()}] = key;
}

// ---- the records of `plan` ----

void TaskManager::Save(MasterState& state) const {
  state.set_leases(leases_);
  state.set_task_front(front_);
  state.set_task_command(number_);
}

Status TaskManager::Load(const MasterState& state, Sets sets, Tasks tasks) {
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("leases:", state.leases(), kMostLeases));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("a master's number:", state.task_front(), kMostTaskCommand));
  MILLRACE_RETURN_IF_ERROR(
      CheckAtMost("a command's number:", state.task_command(), kMostTaskCommand));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("data sets:", sets.size(), kMostTaskSets));
  MILLRACE_RETURN_IF_ERROR(
      CheckAtMost("tasks that are dealt out and not done:", tasks.size(), kMostOpenTasks));
  leases_ = state.leases();
  front_ = state.task_front();
  number_ = state.task_command();
  sets_ = std::move(sets);
  for (const auto& [name, set] : sets_) {
    TaskSetPosition position;
    *position.mutable_spec() = set.spec();
    position.set_dealt(set.dealt());
    MILLRACE_RETURN_IF_ERROR(CheckTaskPosition(position));
    MILLRACE_RETURN_IF_ERROR(CheckAtMost("tasks given up:", set.given_up(), kMostGivenUp));
    MILLRACE_RETURN_IF_ERROR(
        CheckAtMost("bytes of a task's failure:", set.last_failure().size(), kMostTaskDetailBytes));
    MILLRACE_RETURN_IF_ERROR(CheckFollower(set));
  }
  tasks_ = std::move(tasks);
  for (const auto& [key, task] : tasks_) {
    MILLRACE_RETURN_IF_ERROR(CheckTask(key, task, state.ticks()));
    Index(key, task);
    ++open_[key.second];
  }
  return absl::OkStatus();
}

// REQUIRES: those before it are indexed.
Status TaskManager::CheckTask(const Key& key, const TaskState& task, uint64_t ticks) const {
  const std::string name =
      "task " + std::to_string(task.number()) + " of the data set " + Printable(task.set());
  if (TaskKeyOf(task) != key) return BadTasks(name + " is in another's place");
  const auto set = sets_.find(task.set());
  if (set == sets_.end()) return BadTasks(name + ": the set is missing");
  if (task.number() < 0 || task.number() >= set->second.dealt()) {
    return BadTasks(name + " was never dealt out");
  }
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("the lease of " + name + ":", task.lease(), leases_));
  if (by_lease_.contains(task.lease())) return BadTasks(name + " has the lease of another task");
  if (task.is_leased() && (task.lease() == 0 || task.worker().empty())) {
    return BadTasks(name + " is leased to nobody");
  }
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("bytes of the worker of " + name + ":", task.worker().size(),
                                       kMostTaskWorkerBytes));
  MILLRACE_RETURN_IF_ERROR(
      CheckAtMost("the tick of the lease of " + name + ":", task.since_tick(), ticks));
  const uint32_t most_failures = std::max(set->second.spec().most_failures(), uint32_t{1});
  MILLRACE_RETURN_IF_ERROR(
      CheckAtMost("failures of " + name + ":", task.failures(), most_failures - 1));
  MILLRACE_RETURN_IF_ERROR(
      CheckAtMost("timeouts of " + name + ":", task.timeouts(), kMostTimeouts));
  if (task.command() == 0 && task.front() == 0) return absl::OkStatus();
  const std::pair asked(task.front(), task.command());
  const bool is_asked = task.is_leased() && task.command() > 0 &&
                        asked <= std::pair(front_, number_) && !untold_.contains(asked);
  return is_asked ? absl::OkStatus() : BadTasks(name + " was given to nobody who asked for it");
}

}  // namespace millrace
