#include "master/task_desk.h"

#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

Status CheckCall(const TaskCall& call) {
  if (call.command.what_case() == TaskCommand::WHAT_NOT_SET) return absl::OkStatus();
  TaskCommand command = call.command;
  command.set_number(1);
  return CheckTaskCommand(command);
}

Status Closed() {
  return absl::UnavailableError("this master ends: the next one answers, at the same address");
}

}  // namespace

void TaskDesk::Ask(TaskCall call, std::unique_ptr<TaskCaller> caller) {
  const Status accepted = Accept(call, caller);
  if (accepted.ok()) {
    wakeup_.Notify();
  } else {
    caller->Answer(accepted);
  }
}

Status TaskDesk::Accept(TaskCall& call, std::unique_ptr<TaskCaller>& caller) {
  MILLRACE_RETURN_IF_ERROR(CheckCall(call));
  const std::lock_guard<std::mutex> lock(mutex_);
  if (is_closed_) return Closed();
  if (waiting_ >= kMostCalls) {
    return absl::ResourceExhaustedError(
        absl::StrCat(kMostCalls, " calls wait for an answer already; ask again later"));
  }
  ++waiting_;
  new_.emplace_back(std::move(call), std::move(caller));
  return absl::OkStatus();
}

void TaskDesk::Open(Offset next, const TaskManager& state) {
  const auto front = static_cast<uint64_t>(int64_t{next});
  if (!calls_) {
    calls_.emplace(front);
  } else if (state.front() > calls_->front()) {
    calls_->Restart(front, state);
  }
}

std::vector<TaskCommand> TaskDesk::TakeCommands(const TaskManager& state) {
  std::vector<std::pair<TaskCall, std::unique_ptr<TaskCaller>>> calls;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    calls = std::exchange(new_, {});
  }
  for (auto& [call, caller] : calls) {
    calls_->Add(++last_id_, std::move(call));
    callers_[last_id_] = std::move(caller);
  }
  size_t gone = 0;
  for (auto entry = callers_.begin(); entry != callers_.end();) {
    if (!entry->second->HasGone()) {
      ++entry;
      continue;
    }
    calls_->Remove(entry->first);
    entry->second->Answer(absl::CancelledError("the caller has gone"));
    entry = callers_.erase(entry);
    ++gone;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  waiting_ -= gone;
  return calls_->TakeCommands(state);
}

void TaskDesk::Answer(const TaskManager& committed) {
  const auto answers = calls_->TakeAnswers(committed);
  for (const auto& [id, answer] : answers) {
    const auto caller = callers_.find(id);
    const bool has_gone = caller->second->HasGone();
    if (answer.kind == TaskAnswer::Kind::kTask) calls_->NoteTold(answer.lease, !has_gone);
    caller->second->Answer(answer);
    callers_.erase(caller);
  }
  if (answers.empty()) return;
  // Who is free now may have asked while it was not.
  wakeup_.Notify();
  const std::lock_guard<std::mutex> lock(mutex_);
  waiting_ -= answers.size();
}

void TaskDesk::Close() {
  std::vector<std::pair<TaskCall, std::unique_ptr<TaskCaller>>> calls;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_closed_ = true;
    calls = std::exchange(new_, {});
  }
  for (auto& [call, caller] : calls) caller->Answer(Closed());
  for (auto& [id, caller] : callers_) caller->Answer(Closed());
  callers_.clear();
}

}  // namespace millrace
