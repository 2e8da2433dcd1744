#include "processors/membership.h"

#include "base/check.h"
#include "base/printable.h"
#include "topics/message_codec.h"

namespace millrace {
namespace {

std::string TextOfMember(const MemberState& member) {
  return NodeText(member.role(), member.rank());
}

Status BadMember(const std::string& reason) { return absl::InvalidArgumentError(reason); }

}  // namespace

// ---- what nodes say ----

Status Membership::Join(const NodeCommand::Join& join, uint64_t tick) {
  if (const auto found = by_instance_.find(join.instance()); found != by_instance_.end()) {
    MILLRACE_RETURN_IF_ERROR(AnswerToJoin(join).status());
    return Sign(join.instance(), tick);
  }
  Key key(join.role(), 0);
  auto place = members_.find(key);
  for (; place != members_.end() && place->second.phase() == MemberState::LIVE;
       place = members_.find(key)) {
    ++key.second;
  }
  const bool is_full = place == members_.end() && members_.size() >= kMostNodes;
  if (is_full || incarnations_ >= kMostNodeNumber) return AnswerToJoin(join).status();
  MemberState& member = members_[key];
  if (place != members_.end()) {
    member.add_earlier(member.instance());
    if (member.earlier_size() > static_cast<int>(kMostEarlier)) {
      by_instance_.erase(member.earlier(0));
      member.mutable_earlier()->DeleteSubrange(0, 1);
    }
  }
  member.set_role(key.first);
  member.set_rank(key.second);
  member.set_instance(join.instance());
  member.set_address(join.address());
  member.set_incarnation(++incarnations_);
  member.set_phase(MemberState::LIVE);
  member.set_last_sign_tick(tick);
  member.set_timeout_ticks(join.timeout_ticks());
  by_instance_[join.instance()] = key;
  changed_.insert(std::move(key));
  return absl::OkStatus();
}

Status Membership::Sign(const std::string& instance, uint64_t tick) {
  MILLRACE_ASSIGN_OR_RETURN(const MemberState* living, Living(instance));
  MILLRACE_CHECK(living->last_sign_tick() <= tick);
  if (living->last_sign_tick() == tick) return absl::OkStatus();
  const Key key = KeyOf(*living);
  members_.at(key).set_last_sign_tick(tick);
  changed_.insert(key);
  return absl::OkStatus();
}

Status Membership::Leave(const std::string& instance) {
  MILLRACE_RETURN_IF_ERROR(AnswerToLeave(instance));
  const Key& key = by_instance_.at(instance);
  MemberState& member = members_.at(key);
  if (member.phase() == MemberState::LEFT) return absl::OkStatus();
  member.set_phase(MemberState::LEFT);
  changed_.insert(key);
  return absl::OkStatus();
}

std::vector<Membership::Key> Membership::Tick(uint64_t tick) {
  std::vector<Key> deaths;
  for (auto& [key, member] : members_) {
    if (member.phase() != MemberState::LIVE) continue;
    if (tick - member.last_sign_tick() < member.timeout_ticks()) continue;
    member.set_phase(MemberState::DEAD);
    changed_.insert(key);
    deaths.push_back(key);
  }
  return deaths;
}

// ---- questions ----

bool Membership::Lives(const Key& key, uint64_t incarnation) const {
  const auto member = members_.find(key);
  return member != members_.end() && member->second.incarnation() == incarnation &&
         member->second.phase() == MemberState::LIVE;
}

StatusOr<const MemberState*> Membership::Living(const std::string& instance) const {
  const auto key = by_instance_.find(instance);
  if (key != by_instance_.end()) {
    const MemberState& member = members_.at(key->second);
    if (member.instance() == instance && member.phase() == MemberState::LIVE) return &member;
  }
  return NotLiving(instance);
}

// REQUIRES: it does not.
Status Membership::NotLiving(const std::string& instance) const {
  const std::string name = "the node with the instance id " + Printable(instance);
  const auto key = by_instance_.find(instance);
  if (key == by_instance_.end()) return absl::NotFoundError(name + " has not joined");
  const MemberState& member = members_.at(key->second);
  const std::string again = "; to join again, draw another id";
  const std::string who = name + " was " + TextOfMember(member);
  if (member.instance() != instance) {
    return absl::FailedPreconditionError(who + ", and another has replaced it" + again);
  }
  if (member.phase() == MemberState::LEFT) {
    return absl::FailedPreconditionError(who + ", and has left" + again);
  }
  return absl::FailedPreconditionError(who + ", which is dead: it gave no sign of life for " +
                                       std::to_string(member.timeout_ticks()) + " s" + again);
}

StatusOr<const MemberState*> Membership::AnswerToJoin(const NodeCommand::Join& join) const {
  if (!by_instance_.contains(join.instance())) {
    return absl::ResourceExhaustedError("the job has " + std::to_string(kMostNodes) +
                                        " ranks of nodes, and no free one of the role " +
                                        join.role());
  }
  MILLRACE_ASSIGN_OR_RETURN(const MemberState* living, Living(join.instance()));
  if (living->role() == join.role()) return living;
  return absl::FailedPreconditionError("the node with the instance id " +
                                       Printable(join.instance()) + " is " + TextOfMember(*living) +
                                       " already");
}

Status Membership::AnswerToLeave(const std::string& instance) const {
  const auto key = by_instance_.find(instance);
  if (key == by_instance_.end()) return NotLiving(instance);
  const MemberState& member = members_.at(key->second);
  const bool has_left = member.instance() == instance && member.phase() == MemberState::LEFT;
  return has_left ? absl::OkStatus() : Living(instance).status();
}

// ---- the records of `plan` ----

Status Membership::Load(const MasterState& state, Members members) {
  MILLRACE_RETURN_IF_ERROR(
      CheckAtMost("nodes that have joined:", state.node_incarnations(), kMostNodeNumber));
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("ranks of nodes:", members.size(), kMostNodes));
  incarnations_ = state.node_incarnations();
  members_ = std::move(members);
  std::set<uint64_t> incarnations;
  for (const auto& [key, member] : members_) {
    MILLRACE_RETURN_IF_ERROR(CheckMember(key, member, state));
    MILLRACE_RETURN_IF_ERROR(Index(member));
    if (incarnations.insert(member.incarnation()).second) continue;
    return BadMember("the node " + TextOfMember(member) + " has the incarnation of another");
  }
  return absl::OkStatus();
}

Status Membership::CheckMember(const Key& key, const MemberState& member,
                               const MasterState& state) const {
  MILLRACE_RETURN_IF_ERROR(CheckNodeRole(member.role()));
  const std::string name = "the node " + TextOfMember(member);
  if (KeyOf(member) != key) return BadMember(name + " is in another's place");
  if (member.rank() > 0 && !members_.contains({member.role(), member.rank() - 1})) {
    return BadMember(name + " has not the lowest rank that is free");
  }
  MILLRACE_RETURN_IF_ERROR(CheckNodeAddress(member.address()));
  if (member.incarnation() == 0 || member.incarnation() > incarnations_) {
    return BadMember(name + " has never joined");
  }
  if (!MemberState::Phase_IsValid(member.phase())) {
    return BadMember(name + " is in a phase that is not known");
  }
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("the tick of the last sign of " + name + ":",
                                       member.last_sign_tick(), state.ticks()));
  const bool may_be = member.timeout_ticks() > 0 && member.timeout_ticks() <= kMostNodeTimeoutTicks;
  if (!may_be) return BadMember(name + " dies after a time that cannot be");
  const bool is_late = state.ticks() - member.last_sign_tick() >= member.timeout_ticks();
  if (is_late && member.phase() == MemberState::LIVE) return BadMember(name + " lives too long");
  if (!is_late && member.phase() == MemberState::DEAD) return BadMember(name + " died too early");
  return CheckAtMost("earlier instances of " + name + ":",
                     static_cast<uint64_t>(member.earlier_size()), kMostEarlier);
}

Status Membership::Index(const MemberState& member) {
  const auto add = [&](const std::string& instance) -> Status {
    MILLRACE_RETURN_IF_ERROR(CheckNodeInstance(instance));
    if (by_instance_.emplace(instance, KeyOf(member)).second) return absl::OkStatus();
    return BadMember("two nodes have the instance id " + Printable(instance));
  };
  for (const std::string& earlier : member.earlier()) MILLRACE_RETURN_IF_ERROR(add(earlier));
  return add(member.instance());
}

}  // namespace millrace
