// The nodes of a job and their barriers, as a master's fold has them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "messages/master.pb.h"
#include "processors/barriers.h"
#include "processors/membership.h"

namespace millrace {

// What a node is told.
struct NodeAnswer {
  MemberState member;                // itself, when it has joined
  BarrierState barrier;              // of a barrier that it has passed
  std::vector<MemberState> members;  // when it asks who there is: by role and rank
  uint64_t ticks = 0;                // MasterState.ticks
};

// A fold of commands about nodes, and ticks. Pure; not thread-safe. Answers are made from the
// state: whoever says again what was folded is told the same.
class JobNodes {
 public:
  // REQUIRES CheckNodeCommand. A command that is not behind the last one changes nothing; nor does
  // one that is answered with an error, but that it may be a sign of life.
  void Apply(const NodeCommand& command);
  // REQUIRES: `ticks` is MasterState.ticks, and was one less.
  void Tick(uint64_t ticks);

  // What the sender of the command is told by this state; none: it waits. Without `what` it asks
  // who there is. REQUIRES: another command is folded already. Errors: those of Membership and
  // Barriers.
  std::optional<StatusOr<NodeAnswer>> AnswerTo(const NodeCommand& command) const;

  const Membership& members() const { return members_; }
  const Barriers& barriers() const { return barriers_; }
  uint64_t ticks() const { return ticks_; }
  uint64_t front() const { return front_; }
  uint64_t number() const { return number_; }  // of the last command of `front`

  std::set<Membership::Key> TakeChangedMembers() { return members_.TakeChanged(); }
  std::set<std::string> TakeChangedBarriers() { return barriers_.TakeChanged(); }

  void Save(MasterState& state) const;
  // REQUIRES new nodes. InvalidArgument with the reason why this was never saved.
  Status Load(const MasterState& state, Membership::Members members,
              const std::map<std::string, BarrierState>& barriers);

 private:
  Membership members_;
  Barriers barriers_;
  uint64_t ticks_ = 0;
  uint64_t front_ = 0;
  uint64_t number_ = 0;
};

}  // namespace millrace
