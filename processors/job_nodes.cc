#include "processors/job_nodes.h"

#include <utility>

#include "base/check.h"
#include "topics/message_codec.h"
#include "topics/node_codec.h"

namespace millrace {
namespace {

StatusOr<NodeAnswer> AnswerOf(const StatusOr<const MemberState*>& member) {
  if (!member.ok()) return member.status();
  NodeAnswer answer;
  answer.member = **member;
  return answer;
}

}  // namespace

void JobNodes::Apply(const NodeCommand& command) {
  const bool is_new = std::pair(command.front(), command.number()) > std::pair(front_, number_);
  if (!is_new) return;
  front_ = command.front();
  number_ = command.number();
  // What is refused its sender is told by AnswerTo.
  switch (command.what_case()) {
    case NodeCommand::kJoin:
      (void)members_.Join(command.join(), ticks_);
      return;
    case NodeCommand::kSign:
      (void)members_.Sign(command.sign(), ticks_);
      return;
    case NodeCommand::kLeave:
      if (members_.Leave(command.leave()).ok()) barriers_.Settle(members_);
      return;
    case NodeCommand::kArrive:
      // Who waits gives signs, too; this is one.
      (void)members_.Sign(command.arrive().instance(), ticks_);
      barriers_.Arrive(command.arrive(), members_);
      barriers_.Settle(members_);
      return;
    case NodeCommand::WHAT_NOT_SET:
      break;
  }
  MILLRACE_CHECK(false);  // CheckNodeCommand refuses it
}

void JobNodes::Tick(uint64_t ticks) {
  MILLRACE_CHECK(ticks == ticks_ + 1);
  ticks_ = ticks;
  const std::vector<Membership::Key> deaths = members_.Tick(ticks);
  if (deaths.empty()) return;
  for (const Membership::Key& key : deaths) barriers_.NoteDeath(members_.members().at(key));
  barriers_.Settle(members_);
}

std::optional<StatusOr<NodeAnswer>> JobNodes::AnswerTo(const NodeCommand& command) const {
  NodeAnswer answer;
  switch (command.what_case()) {
    case NodeCommand::kJoin:
      return AnswerOf(members_.AnswerToJoin(command.join()));
    case NodeCommand::kSign:
      return AnswerOf(members_.Living(command.sign()));
    case NodeCommand::kLeave: {
      const Status left = members_.AnswerToLeave(command.leave());
      return left.ok() ? StatusOr<NodeAnswer>(answer) : left;
    }
    case NodeCommand::kArrive: {
      const auto passed = barriers_.AnswerTo(command.arrive(), members_);
      if (!passed.ok()) return passed.status();
      if (*passed == nullptr) return std::nullopt;
      answer.barrier = barriers_.StateOf(command.arrive().barrier());
      return answer;
    }
    case NodeCommand::WHAT_NOT_SET:
      answer.ticks = ticks_;
      for (const auto& [key, member] : members_.members()) answer.members.push_back(member);
      return answer;
  }
  MILLRACE_CHECK(false);
}

void JobNodes::Save(MasterState& state) const {
  members_.Save(state);
  barriers_.Save(state);
  state.set_node_front(front_);
  state.set_node_command(number_);
}

Status JobNodes::Load(const MasterState& state, Membership::Members members,
                      const std::map<std::string, BarrierState>& barriers) {
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("a master's number:", state.node_front(), kMostNodeNumber));
  MILLRACE_RETURN_IF_ERROR(
      CheckAtMost("a command's number:", state.node_command(), kMostNodeNumber));
  ticks_ = state.ticks();
  front_ = state.node_front();
  number_ = state.node_command();
  MILLRACE_RETURN_IF_ERROR(members_.Load(state, std::move(members)));
  return barriers_.Load(state, barriers, members_);
}

}  // namespace millrace
