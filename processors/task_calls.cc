#include "processors/task_calls.h"

#include <algorithm>

#include "topics/task_codec.h"

namespace millrace {
namespace {

// Why a command that is folded has not begun its set. (A trainer's client takes the refusal of a
// get for the end of the set: that is never refused.)
Status RefusalOf(const TaskCommand& command, const TaskManager& state) {
  if (command.has_begin()) return state.CheckRoomFor(command.begin());
  if (command.has_position()) return state.CheckRoomFor(command.position().spec());
  return absl::OkStatus();
}

}  // namespace

Status TaskCalls::Check(const TaskCall& call) {
  if (call.command.what_case() == TaskCommand::WHAT_NOT_SET) return absl::OkStatus();
  TaskCommand command = call.command;
  command.set_number(1);
  return CheckTaskCommand(command);
}

void TaskCalls::Remove(Id id) {
  const auto call = calls_.find(id);
  if (call == calls_.end()) return;
  if (call->second.sent > 0 && call->second.call.command.has_get()) {
    abandoned_.insert(call->second.sent);
  }
  calls_.erase(call);
}

void TaskCalls::Restart(uint64_t front, const TaskManager& state) {
  for (const uint64_t sent : std::exchange(abandoned_, {})) {
    if (const TaskState* task = state.FoundFor(front_, sent); task != nullptr) {
      NoteTold(task->lease(), false);
    }
  }
  told_.merge(sent_told_.leases);
  untold_.merge(sent_untold_.leases);
  sent_told_ = {};
  sent_untold_ = {};
  // A task that a call has got is given to its worker again (TaskManager::HasUntold).
  for (auto& [id, call] : calls_) call.sent = 0;
  front_ = front;
  number_ = 0;
}

TaskCommand& TaskCalls::AddCommand(std::vector<TaskCommand>& commands) {
  TaskCommand& command = commands.emplace_back();
  command.set_front(front_);
  command.set_number(++number_);
  return command;
}

std::vector<TaskCommand> TaskCalls::TakeCommands(const TaskManager& state) {
  std::vector<TaskCommand> commands;
  std::erase_if(abandoned_, [&](uint64_t sent) { return !IsFolded(sent, state); });
  AddNotes(commands, state);
  std::map<std::string, uint64_t> asked;
  for (auto& [id, call] : calls_) {
    const TaskCommand& wanted = call.call.command;
    if (call.sent > 0 && IsFolded(call.sent, state)) continue;  // to be answered
    call.sent = 0;
    if (wanted.what_case() == TaskCommand::WHAT_NOT_SET) continue;
    if (wanted.has_get() && !MayGet(wanted.get(), state, asked)) continue;
    TaskCommand& command = AddCommand(commands);
    const uint64_t number = command.number();
    command = wanted;
    command.set_front(front_);
    command.set_number(number);
    call.sent = number;
  }
  return commands;
}

void TaskCalls::AddNotes(std::vector<TaskCommand>& commands, const TaskManager& state) {
  const auto add = [&](std::set<uint32_t>& noted, Notes& sent, bool was_told) {
    if (!IsFolded(sent.sent, state)) noted.insert(sent.leases.begin(), sent.leases.end());
    sent.leases = std::exchange(noted, {});
    if (sent.leases.empty()) return;
    TaskCommand& command = AddCommand(commands);
    TaskCommand::Leases& leases =
        was_told ? *command.mutable_delivered() : *command.mutable_undelivered();
    for (const uint32_t lease : sent.leases) leases.add_lease(lease);
    sent.sent = command.number();
  };
  add(told_, sent_told_, true);
  add(untold_, sent_untold_, false);
}

// A command that gets nothing would only make `control` longer.
bool TaskCalls::MayGet(const TaskCommand::Get& get, const TaskManager& state,
                       std::map<std::string, uint64_t>& asked) const {
  const std::vector<std::string> sets = state.SetsFor(get);
  uint64_t free = 0;
  for (const std::string& set : sets) {
    if (state.HasUntold(set, get.worker(), front_)) return true;
    free += state.FreeIn(set);
  }
  if (sets.empty()) return false;
  uint64_t& count = asked[get.set()];
  if (count >= free) return false;
  ++count;
  return true;
}

std::vector<std::pair<TaskCalls::Id, StatusOr<TaskAnswer>>> TaskCalls::TakeAnswers(
    const TaskManager& committed) {
  std::vector<std::pair<Id, StatusOr<TaskAnswer>>> answers;
  std::erase_if(abandoned_, [&](uint64_t sent) {
    if (!IsFolded(sent, committed)) return false;
    const TaskState* task = committed.FoundFor(front_, sent);
    if (task != nullptr) NoteTold(task->lease(), false);
    return true;
  });
  for (auto entry = calls_.begin(); entry != calls_.end();) {
    TaskAnswer answer;
    if (!Answer(entry->second, committed, answer)) {
      ++entry;
      continue;
    }
    const Status refusal = RefusalOf(entry->second.call.command, committed);
    if (refusal.ok()) {
      answers.emplace_back(entry->first, std::move(answer));
    } else {
      answers.emplace_back(entry->first, refusal);
    }
    entry = calls_.erase(entry);
  }
  return answers;
}

bool TaskCalls::Answer(Call& call, const TaskManager& committed, TaskAnswer& answer) const {
  if (call.call.command.has_get()) return AnswerGet(call, committed, answer);
  if (call.call.command.what_case() != TaskCommand::WHAT_NOT_SET) {
    return call.sent > 0 && IsFolded(call.sent, committed);
  }
  answer.kind = TaskAnswer::Kind::kPosition;
  if (committed.sets().contains(call.call.reads)) {
    answer.position = committed.PositionOf(call.call.reads);
  }
  return true;
}

bool TaskCalls::AnswerGet(Call& call, const TaskManager& committed, TaskAnswer& answer) const {
  if (call.sent > 0) {
    if (!IsFolded(call.sent, committed)) return false;
    const TaskState* task = committed.FoundFor(front_, call.sent);
    call.sent = 0;  // who got nothing waits
    if (task != nullptr) {
      const TaskSetSpec& spec = committed.sets().at(task->set()).spec();
      answer.kind = TaskAnswer::Kind::kTask;
      answer.lease = task->lease();
      answer.range = RangeOfTask(spec, task->number());
      answer.type = spec.type();
      answer.set =
          spec.type() == kEndTask && !spec.follows().empty() ? spec.follows() : spec.name();
      answer.epoch = EpochAt(spec, task->number() + 1);
      return true;
    }
  }
  return AnswerWithoutTask(call.call, committed, answer);
}

bool TaskCalls::AnswerWithoutTask(const TaskCall& call, const TaskManager& committed,
                                  TaskAnswer& answer) const {
  const TaskCommand::Get& get = call.command.get();
  const std::vector<std::string> sets = committed.SetsFor(get);
  const bool is_there = !sets.empty();
  const bool is_done = is_there && std::ranges::all_of(sets, [&](const std::string& set) {
                         return committed.IsDone(set);
                       });
  const bool never_comes = !is_there && committed.sets().contains(call.follows);
  answer.kind = TaskAnswer::Kind::kSetIsDone;
  if (is_done || never_comes) return true;
  if (call.waits) return false;
  answer.kind = TaskAnswer::Kind::kNoTaskNow;
  std::map<std::string, uint64_t> asked;
  return !MayGet(get, committed, asked);
}

}  // namespace millrace
