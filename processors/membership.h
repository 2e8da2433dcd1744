// The nodes of a job: who has which rank, and who lives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "messages/master.pb.h"
#include "topics/node_codec.h"

namespace millrace {

// A fold of what nodes say, and of ticks. Pure; not thread-safe.
//
// A node is a process that drew an instance id. It gets the lowest rank of its role that no living
// node has, so a replacement gets that of a dead one and nobody is renumbered. It is dead when so
// many ticks were folded since its last sign, and then never lives again: whoever has its id is
// refused. (Of those that others have replaced only the last kMostEarlier of a rank are known.)
class Membership {
 public:
  using Key = std::pair<std::string, uint32_t>;  // role and rank
  using Members = std::map<Key, MemberState>;    // of each rank the newest

  static constexpr size_t kMostEarlier = 8;

  static Key KeyOf(const MemberState& member) { return {member.role(), member.rank()}; }

  // The following change nothing where the answer is a refusal. REQUIRES CheckNodeCommand; `tick`
  // is MasterState.ticks and never less than before.

  // A sign, if the instance lives already. Errors: AnswerToJoin's.
  Status Join(const NodeCommand::Join& join, uint64_t tick);
  // Errors: Living's.
  Status Sign(const std::string& instance, uint64_t tick);
  // OK also when it has left. Errors: AnswerToLeave's.
  Status Leave(const std::string& instance);
  // The ones that die now.
  std::vector<Key> Tick(uint64_t tick);

  const Members& members() const { return members_; }
  uint64_t incarnations() const { return incarnations_; }  // so many have joined
  // Whether the node of that incarnation lives.
  bool Lives(const Key& key, uint64_t incarnation) const;

  // Null never. FailedPrecondition: it is dead or has left. NotFound: it has not joined.
  StatusOr<const MemberState*> Living(const std::string& instance) const;
  // What an instance is told that has said it, by the state now. FailedPrecondition, too: it has
  // another role. ResourceExhausted: there are kMostNodes.
  StatusOr<const MemberState*> AnswerToJoin(const NodeCommand::Join& join) const;
  Status AnswerToLeave(const std::string& instance) const;

  // What has changed or come since the last call; none goes.
  std::set<Key> TakeChanged() { return std::exchange(changed_, {}); }

  void Save(MasterState& state) const { state.set_node_incarnations(incarnations_); }
  // REQUIRES a new membership. InvalidArgument with the reason why this was never saved.
  Status Load(const MasterState& state, Members members);

 private:
  Status NotLiving(const std::string& instance) const;
  Status CheckMember(const Key& key, const MemberState& member, const MasterState& state) const;
  Status Index(const MemberState& member);

  Members members_;
  uint64_t incarnations_ = 0;
  std::set<Key> changed_;
  std::map<std::string, Key> by_instance_;  // also of the earlier ones; follows from members_
};

}  // namespace millrace
