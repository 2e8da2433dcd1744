// Where nodes of a job wait for each other.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/status.h"
#include "messages/master.pb.h"
#include "processors/membership.h"

namespace millrace {

// A fold of arrivals and deaths. Pure; not thread-safe.
//
// A barrier is for the nodes of a role, or for all. It is released when every living node that it
// is for has arrived, and so many of each role live as those who arrived want at least; it can then
// be passed again. It names each death since it was released the last time, or, the first time, all
// who are dead then. A node numbers how often it passes a barrier, so that a call that is made
// again is not one to pass it again: what the last release said is kept until the next.
//
// Who arrives may give a value, which all are told who are released with it. A release has a number
// that no other release of the job has, also of a barrier that was forgotten in between.
//
// A barrier that no living node has arrived at or passed is forgotten.
class Barriers {
 public:
  struct Barrier {
    std::string role;                                   // empty: all
    std::map<uint64_t, BarrierState::Arrival> arrived;  // by incarnation
    std::map<std::string, uint32_t> least;              // by role
    std::map<Membership::Key, std::string> deaths;      // the instances
    std::map<uint64_t, BarrierState::Arrival> passed;
    std::map<Membership::Key, std::string> passed_deaths;
    uint64_t release = 0;  // of the passed
  };

  // REQUIRES CheckNodeCommand. Changes nothing where AnswerTo is an error. Settle follows.
  void Arrive(const NodeCommand::Arrive& arrive, const Membership& members);
  // Settle follows.
  void NoteDeath(const MemberState& member);
  // Lets go whoever need not wait any more. To be called when nodes have arrived, died or left.
  void Settle(const Membership& members);

  const std::map<std::string, Barrier>& barriers() const { return barriers_; }  // by name
  BarrierState StateOf(const std::string& name) const;  // REQUIRES: there is one

  // What a node is told that has arrived, by the state now; null: it waits; otherwise the barrier,
  // which it has passed. FailedPrecondition: the barrier is for others, or it has passed it as
  // often already. ResourceExhausted: there are kMostBarriers, or the values are too long together.
  // Aborted: it did not arrive, and now could. Membership::Living's.
  StatusOr<const Barrier*> AnswerTo(const NodeCommand::Arrive& arrive,
                                    const Membership& members) const;

  // What has changed, come or gone since the last call.
  std::set<std::string> TakeChanged() { return std::exchange(changed_, {}); }

  void Save(MasterState& state) const { state.set_barrier_releases(releases_); }
  // REQUIRES new barriers, and loaded members. InvalidArgument with the reason why this was never
  // saved.
  Status Load(const MasterState& state, const std::map<std::string, BarrierState>& barriers,
              const Membership& members);

 private:
  // What keeps the member from arriving; OK: nothing.
  Status CheckArrival(const NodeCommand::Arrive& arrive, const MemberState& member) const;
  Status LoadOne(const BarrierState& state, const Membership& members);
  void Release(Barrier& barrier, const Membership& members);

  std::map<std::string, Barrier> barriers_;
  uint64_t releases_ = 0;
  std::set<std::string> changed_;
};

}  // namespace millrace
