#include "topics/node_codec.h"

#include <set>

#include "base/printable.h"
#include "topics/message_codec.h"
#include "topics/process_name.h"

namespace millrace {
namespace {

Status BadNode(const std::string& reason) { return absl::InvalidArgumentError(reason); }

Status CheckNodeText(const std::string& what, const std::string& text, size_t most) {
  if (text.empty()) return BadNode(what + " is empty");
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("bytes of " + what + ":", text.size(), most));
  if (!HasControls(text)) return absl::OkStatus();
  return BadNode(what + " has control characters: \"" + Printable(text) + "\"");
}

Status CheckTimeout(uint64_t ticks) {
  if (ticks == 0) return BadNode("a node that is dead without a sign for 0 s: at least 1");
  return CheckAtMost("seconds until a node without a sign is dead:", ticks, kMostNodeTimeoutTicks);
}

Status CheckJoin(const NodeCommand::Join& join) {
  MILLRACE_RETURN_IF_ERROR(CheckNodeRole(join.role()));
  MILLRACE_RETURN_IF_ERROR(CheckNodeInstance(join.instance()));
  MILLRACE_RETURN_IF_ERROR(CheckNodeAddress(join.address()));
  return CheckTimeout(join.timeout_ticks());
}

Status CheckArrive(const NodeCommand::Arrive& arrive) {
  MILLRACE_RETURN_IF_ERROR(CheckNodeInstance(arrive.instance()));
  MILLRACE_RETURN_IF_ERROR(CheckBarrierName(arrive.barrier()));
  if (!arrive.role().empty()) MILLRACE_RETURN_IF_ERROR(CheckNodeRole(arrive.role()));
  const std::string at = " at the barrier " + Printable(arrive.barrier());
  if (arrive.passing() == 0) return BadNode("passing 0" + at + ": the first is 1");
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("passing" + at + ":", arrive.passing(), kMostNodeNumber));
  MILLRACE_RETURN_IF_ERROR(CheckBarrierValue(arrive.value()));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("roles of which nodes are to live" + at + ":",
                                       static_cast<uint64_t>(arrive.least_size()),
                                       kMostLeastRoles));
  std::set<std::string> roles;
  for (const NodeCount& least : arrive.least()) {
    MILLRACE_RETURN_IF_ERROR(CheckNodeRole(least.role()));
    const std::string of_role = " nodes of the role " + least.role() + at;
    if (least.nodes() == 0) return BadNode("at least 0" + of_role + ": leave it out");
    MILLRACE_RETURN_IF_ERROR(
        CheckAtMost("at least so many" + of_role + ":", least.nodes(), kMostNodes));
    if (!arrive.role().empty() && least.role() != arrive.role()) {
      return BadNode("at least " + std::to_string(least.nodes()) + of_role +
                     ", which is for the role " + arrive.role());
    }
    if (!roles.insert(least.role()).second)
      return BadNode("the role " + least.role() + " twice" + at);
  }
  return absl::OkStatus();
}

}  // namespace

Status CheckNodeRole(const std::string& role) {
  ProcessName name;
  name.set_group(role);
  if (CheckProcessName(name).ok()) return absl::OkStatus();
  return BadNode("\"" + Printable(role, 100) +
                 "\" is not a role of nodes: lower-case letters, digits and hyphens, at most 32, a "
                 "letter first");
}

Status CheckNodeInstance(const std::string& instance) {
  return CheckNodeText("a node's instance id", instance, kMostInstanceBytes);
}

Status CheckNodeAddress(const std::string& address) {
  return CheckNodeText("a node's address", address, kMostAddressBytes);
}

Status CheckBarrierName(const std::string& name) {
  return CheckNodeText("a barrier's name", name, kMostBarrierNameBytes);
}

Status CheckBarrierValue(const std::string& value) {
  return CheckAtMost("bytes of a node's value at a barrier:", value.size(), kMostValueBytes);
}

Status CheckNodeCommand(const NodeCommand& command) {
  if (command.number() == 0) return BadNode("a command of number 0 about nodes: the first is 1");
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("a master's number:", command.front(), kMostNodeNumber));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("a command's number:", command.number(), kMostNodeNumber));
  switch (command.what_case()) {
    case NodeCommand::kJoin:
      return CheckJoin(command.join());
    case NodeCommand::kSign:
      return CheckNodeInstance(command.sign());
    case NodeCommand::kLeave:
      return CheckNodeInstance(command.leave());
    case NodeCommand::kArrive:
      return CheckArrive(command.arrive());
    case NodeCommand::WHAT_NOT_SET:
      break;
  }
  return BadNode("a command of an unknown kind about nodes");
}

std::string NodeText(const std::string& role, uint32_t rank) {
  return role + "-" + std::to_string(rank);
}

}  // namespace millrace
