#include "processors/barriers.h"

#include <algorithm>
#include <utility>

#include "base/printable.h"
#include "topics/message_codec.h"
#include "topics/node_codec.h"

namespace millrace {
namespace {

using Arrivals = std::map<uint64_t, BarrierState::Arrival>;
using Deaths = std::map<Membership::Key, std::string>;

Status BadBarrier(const std::string& reason) { return absl::InvalidArgumentError(reason); }

bool IsFor(const Barriers::Barrier& barrier, const std::string& role) {
  return barrier.role.empty() || barrier.role == role;
}

bool LivesStill(const BarrierState::Arrival& arrival, const Membership& members) {
  return members.Lives({arrival.role(), arrival.rank()}, arrival.incarnation());
}

bool MayBeReleased(const Barriers::Barrier& barrier, const Membership& members) {
  if (barrier.arrived.empty()) return false;
  std::map<std::string, uint32_t> living;
  for (const auto& [key, member] : members.members()) {
    if (member.phase() != MemberState::LIVE || !IsFor(barrier, key.first)) continue;
    if (!barrier.arrived.contains(member.incarnation())) return false;
    ++living[key.first];
  }
  return std::ranges::all_of(barrier.least, [&](const auto& least) {
    const auto count = living.find(least.first);
    return count != living.end() && count->second >= least.second;
  });
}

// Null: there is none.
const BarrierState::Arrival* In(const Arrivals& arrivals, const MemberState& member) {
  const auto found = arrivals.find(member.incarnation());
  return found == arrivals.end() ? nullptr : &found->second;
}

Status CheckValues(const std::string& name, const NodeCommand::Arrive& arrive,
                   const MemberState& member, const Barriers::Barrier& barrier) {
  size_t bytes = arrive.value().size();
  for (const auto& [incarnation, arrival] : barrier.arrived) {
    if (incarnation != member.incarnation()) bytes += arrival.value().size();
  }
  if (bytes <= kMostValuesBytes) return absl::OkStatus();
  return absl::ResourceExhaustedError("the values of all nodes at " + name + " would have " +
                                      std::to_string(bytes) + " bytes together; at most " +
                                      std::to_string(kMostValuesBytes) +
                                      " are allowed: give shorter values, or have fewer nodes");
}

void Append(const Deaths& deaths, google::protobuf::RepeatedPtrField<BarrierState::Death>& to) {
  for (const auto& [key, instance] : deaths) {
    BarrierState::Death& death = *to.Add();
    death.set_role(key.first);
    death.set_rank(key.second);
    death.set_instance(instance);
  }
}

}  // namespace

void Barriers::Arrive(const NodeCommand::Arrive& arrive, const Membership& members) {
  const StatusOr<const MemberState*> member = members.Living(arrive.instance());
  if (!member.ok() || !CheckArrival(arrive, **member).ok()) return;
  const auto [place, is_new] = barriers_.try_emplace(arrive.barrier());
  Barrier& barrier = place->second;
  if (is_new) {
    barrier.role = arrive.role();
    for (const auto& [key, other] : members.members()) {
      if (other.phase() != MemberState::DEAD || !IsFor(barrier, key.first)) continue;
      barrier.deaths[key] = other.instance();
    }
  }
  const BarrierState::Arrival* passed = In(barrier.passed, **member);
  if (passed != nullptr && passed->passing() == arrive.passing()) return;  // said again
  BarrierState::Arrival& arrival = barrier.arrived[(*member)->incarnation()];
  arrival.set_role((*member)->role());
  arrival.set_rank((*member)->rank());
  arrival.set_incarnation((*member)->incarnation());
  arrival.set_passing(arrive.passing());
  arrival.set_value(arrive.value());
  for (const NodeCount& least : arrive.least()) {
    uint32_t& nodes = barrier.least[least.role()];
    nodes = std::max(nodes, least.nodes());
  }
  changed_.insert(arrive.barrier());
}

void Barriers::NoteDeath(const MemberState& member) {
  for (auto& [name, barrier] : barriers_) {
    if (!IsFor(barrier, member.role())) continue;
    barrier.deaths[Membership::KeyOf(member)] = member.instance();
    changed_.insert(name);
  }
}

void Barriers::Settle(const Membership& members) {
  const auto lives = [&](const auto& entry) { return LivesStill(entry.second, members); };
  for (auto entry = barriers_.begin(); entry != barriers_.end();) {
    auto& [name, barrier] = *entry;
    if (std::erase_if(barrier.arrived, [&](const auto& each) { return !lives(each); }) > 0) {
      changed_.insert(name);
    }
    if (MayBeReleased(barrier, members)) {
      Release(barrier, members);
      changed_.insert(name);
    }
    if (!barrier.arrived.empty() || std::ranges::any_of(barrier.passed, lives)) {
      ++entry;
      continue;
    }
    changed_.insert(name);
    entry = barriers_.erase(entry);
  }
}

// REQUIRES MayBeReleased.
void Barriers::Release(Barrier& barrier, const Membership& members) {
  barrier.passed = std::exchange(barrier.arrived, {});
  for (auto& [incarnation, arrival] : barrier.passed) {
    const MemberState& member = members.members().at({arrival.role(), arrival.rank()});
    arrival.set_instance(member.instance());
    arrival.set_address(member.address());
  }
  barrier.passed_deaths = std::exchange(barrier.deaths, {});
  barrier.least.clear();
  barrier.release = ++releases_;
}

// ---- questions ----

Status Barriers::CheckArrival(const NodeCommand::Arrive& arrive, const MemberState& member) const {
  const std::string name = "the barrier " + Printable(arrive.barrier());
  const auto found = barriers_.find(arrive.barrier());
  if (found == barriers_.end()) {
    if (barriers_.size() >= kMostBarriers) {
      return absl::ResourceExhaustedError("the job has " + std::to_string(kMostBarriers) +
                                          " barriers and cannot have " + name +
                                          ", too: a barrier can be passed any number of times");
    }
  } else if (found->second.role != arrive.role()) {
    return absl::FailedPreconditionError(
        name + " is for " +
        (found->second.role.empty() ? "all roles" : "the role " + found->second.role) +
        ", not for " + (arrive.role().empty() ? "all" : arrive.role()));
  }
  if (!arrive.role().empty() && arrive.role() != member.role()) {
    return absl::FailedPreconditionError(name + " is for the role " + arrive.role() + ", and " +
                                         NodeText(member.role(), member.rank()) +
                                         " has another one");
  }
  if (found == barriers_.end()) return absl::OkStatus();
  const BarrierState::Arrival* passed = In(found->second.passed, member);
  const BarrierState::Arrival* arrived = In(found->second.arrived, member);
  // Where both are known, it is told of the newer one.
  const BarrierState::Arrival* newest = arrived != nullptr ? arrived : passed;
  if (newest != nullptr && arrive.passing() < newest->passing()) {
    return absl::FailedPreconditionError("passing " + std::to_string(arrive.passing()) + " at " +
                                         name + " comes after passing " +
                                         std::to_string(newest->passing()) + " of the same node");
  }
  // What it gave at the last release is no burden to the next.
  if (passed == nullptr || passed->passing() != arrive.passing()) {
    MILLRACE_RETURN_IF_ERROR(CheckValues(name, arrive, member, found->second));
  }
  std::set<std::string> roles;
  for (const auto& [role, nodes] : found->second.least) roles.insert(role);
  for (const NodeCount& least : arrive.least()) roles.insert(least.role());
  return CheckAtMost("roles of which nodes are to live at " + name + ":", roles.size(),
                     kMostLeastRoles);
}

StatusOr<const Barriers::Barrier*> Barriers::AnswerTo(const NodeCommand::Arrive& arrive,
                                                      const Membership& members) const {
  MILLRACE_ASSIGN_OR_RETURN(const MemberState* member, members.Living(arrive.instance()));
  MILLRACE_RETURN_IF_ERROR(CheckArrival(arrive, *member));
  const auto found = barriers_.find(arrive.barrier());
  if (found != barriers_.end()) {
    const BarrierState::Arrival* passed = In(found->second.passed, *member);
    if (passed != nullptr && passed->passing() == arrive.passing()) return &found->second;
    const BarrierState::Arrival* arrived = In(found->second.arrived, *member);
    if (arrived != nullptr && arrived->passing() == arrive.passing()) return nullptr;
  }
  return absl::AbortedError("what kept the node from " + Printable(arrive.barrier()) +
                            " is over: call again");
}

// ---- the records of `plan` ----

BarrierState Barriers::StateOf(const std::string& name) const {
  const Barrier& barrier = barriers_.at(name);
  BarrierState state;
  state.set_name(name);
  state.set_role(barrier.role);
  for (const auto& [incarnation, arrival] : barrier.arrived) *state.add_arrived() = arrival;
  for (const auto& [role, nodes] : barrier.least) {
    NodeCount& least = *state.add_least();
    least.set_role(role);
    least.set_nodes(nodes);
  }
  Append(barrier.deaths, *state.mutable_deaths());
  for (const auto& [incarnation, arrival] : barrier.passed) *state.add_passed() = arrival;
  Append(barrier.passed_deaths, *state.mutable_passed_deaths());
  state.set_release(barrier.release);
  return state;
}

namespace {

using StoredArrivals = google::protobuf::RepeatedPtrField<BarrierState::Arrival>;
using StoredDeaths = google::protobuf::RepeatedPtrField<BarrierState::Death>;

StatusOr<Arrivals> LoadArrivals(const StoredArrivals& stored, const Barriers::Barrier& barrier,
                                const Membership& members, const std::string& at) {
  Arrivals arrivals;
  std::set<Membership::Key> ranks;
  size_t bytes = 0;
  for (const BarrierState::Arrival& arrival : stored) {
    const Membership::Key key(arrival.role(), arrival.rank());
    const auto member = members.members().find(key);
    const bool may_be = member != members.members().end() && IsFor(barrier, key.first) &&
                        arrival.incarnation() > 0 &&
                        arrival.incarnation() <= member->second.incarnation() &&
                        arrival.passing() > 0 && arrival.passing() <= kMostNodeNumber;
    if (!may_be) return BadBarrier("a node that cannot be" + at);
    MILLRACE_RETURN_IF_ERROR(CheckBarrierValue(arrival.value()));
    bytes += arrival.value().size();
    arrivals[arrival.incarnation()] = arrival;
    if (!ranks.insert(key).second) return BadBarrier("a rank twice" + at);
  }
  if (arrivals.size() != ranks.size()) {
    return BadBarrier("two nodes of the same incarnation" + at);
  }
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("bytes of values" + at + ":", bytes, kMostValuesBytes));
  return arrivals;
}

StatusOr<Deaths> LoadDeaths(const StoredDeaths& stored, const Barriers::Barrier& barrier,
                            const Membership& members, const std::string& at) {
  Deaths deaths;
  for (const BarrierState::Death& death : stored) {
    const Membership::Key key(death.role(), death.rank());
    MILLRACE_RETURN_IF_ERROR(CheckNodeInstance(death.instance()));
    const bool may_be = members.members().contains(key) && IsFor(barrier, key.first);
    if (may_be && deaths.emplace(key, death.instance()).second) continue;
    return BadBarrier("a death that cannot be" + at);
  }
  return deaths;
}

}  // namespace

Status Barriers::LoadOne(const BarrierState& state, const Membership& members) {
  MILLRACE_RETURN_IF_ERROR(CheckBarrierName(state.name()));
  const std::string at = " at the barrier " + Printable(state.name());
  Barrier& barrier = barriers_[state.name()];
  barrier.role = state.role();
  if (!state.role().empty()) MILLRACE_RETURN_IF_ERROR(CheckNodeRole(state.role()));
  MILLRACE_ASSIGN_OR_RETURN(barrier.arrived, LoadArrivals(state.arrived(), barrier, members, at));
  MILLRACE_ASSIGN_OR_RETURN(barrier.passed, LoadArrivals(state.passed(), barrier, members, at));
  for (const auto& [incarnation, arrival] : barrier.passed) {
    if (arrival.instance().empty() && arrival.address().empty()) continue;
    MILLRACE_RETURN_IF_ERROR(CheckNodeInstance(arrival.instance()));
    MILLRACE_RETURN_IF_ERROR(CheckNodeAddress(arrival.address()));
  }
  barrier.release = state.release();
  MILLRACE_RETURN_IF_ERROR(
      CheckAtMost("the number of the last release" + at + ":", barrier.release, releases_));
  MILLRACE_ASSIGN_OR_RETURN(barrier.deaths, LoadDeaths(state.deaths(), barrier, members, at));
  MILLRACE_ASSIGN_OR_RETURN(barrier.passed_deaths,
                            LoadDeaths(state.passed_deaths(), barrier, members, at));
  for (const NodeCount& least : state.least()) {
    MILLRACE_RETURN_IF_ERROR(CheckNodeRole(least.role()));
    const bool may_be = IsFor(barrier, least.role()) && least.nodes() > 0 &&
                        least.nodes() <= kMostNodes &&
                        barrier.least.emplace(least.role(), least.nodes()).second;
    if (!may_be) return BadBarrier("a least number of nodes that cannot be" + at);
  }
  return CheckAtMost("roles" + at + ":", barrier.least.size(), kMostLeastRoles);
}

Status Barriers::Load(const MasterState& state, const std::map<std::string, BarrierState>& barriers,
                      const Membership& members) {
  MILLRACE_RETURN_IF_ERROR(CheckAtMost("barriers:", barriers.size(), kMostBarriers));
  MILLRACE_RETURN_IF_ERROR(
      CheckAtMost("releases of barriers:", state.barrier_releases(), kMostNodeNumber));
  releases_ = state.barrier_releases();
  for (const auto& [name, one] : barriers) MILLRACE_RETURN_IF_ERROR(LoadOne(one, members));
  // Whoever waits does so for somebody.
  Settle(members);
  if (changed_.empty()) return absl::OkStatus();
  return BadBarrier("the barrier " + Printable(*changed_.begin()) +
                    " is not as nodes have left it");
}

}  // namespace millrace
