#include "processors/node_calls.h"

#include <optional>

#include "topics/node_codec.h"

namespace millrace {

Status NodeCalls::Check(const NodeCommand& asked) {
  if (asked.what_case() == NodeCommand::WHAT_NOT_SET) return absl::OkStatus();
  NodeCommand command = asked;
  command.set_number(1);
  return CheckNodeCommand(command);
}

void NodeCalls::Restart(uint64_t front, const JobNodes&) {
  // No call is folded by the new number, so all that are not answered are handed out again.
  front_ = front;
  number_ = 0;
}

std::vector<NodeCommand> NodeCalls::TakeCommands(const JobNodes& state) {
  std::vector<NodeCommand> commands;
  for (auto& [id, call] : calls_) {
    if (call.command.what_case() == NodeCommand::WHAT_NOT_SET || IsFolded(call, state)) continue;
    call.sent = ++number_;
    NodeCommand& command = commands.emplace_back(call.command);
    command.set_front(front_);
    command.set_number(call.sent);
  }
  return commands;
}

std::vector<std::pair<NodeCalls::Id, StatusOr<NodeAnswer>>> NodeCalls::TakeAnswers(
    const JobNodes& committed) {
  std::vector<std::pair<Id, StatusOr<NodeAnswer>>> answers;
  for (auto entry = calls_.begin(); entry != calls_.end();) {
    const Call& call = entry->second;
    std::optional<StatusOr<NodeAnswer>> answer;
    if (call.command.what_case() == NodeCommand::WHAT_NOT_SET || IsFolded(call, committed)) {
      answer = committed.AnswerTo(call.command);
    }
    if (!answer) {
      ++entry;
      continue;
    }
    answers.emplace_back(entry->first, *std::move(answer));
    entry = calls_.erase(entry);
  }
  return answers;
}

}  // namespace millrace
