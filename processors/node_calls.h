// The calls of nodes that a master has not answered yet. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "messages/master.pb.h"
#include "processors/job_nodes.h"

namespace millrace {

// As TaskCalls: a call becomes a command of `control`, and is answered when the state that has it
// folded is in `plan`; who waits at a barrier, when that is released. All commands may be said
// again, so whatever is lost in between is. Not thread-safe.
class NodeCalls {
 public:
  using Asked = NodeCommand;  // `what` only; without it: who there is
  using Command = NodeCommand;
  using State = JobNodes;
  using Id = uint64_t;  // the caller's; never used twice

  // InvalidArgument: the command cannot be used.
  static Status Check(const NodeCommand& asked);

  // As those of TaskCalls.
  explicit NodeCalls(uint64_t front) : front_(front) {}
  void Restart(uint64_t front, const JobNodes& state);
  void Add(Id id, NodeCommand call) { calls_[id] = {std::move(call), 0}; }
  void Remove(Id id) { calls_.erase(id); }
  std::vector<NodeCommand> TakeCommands(const JobNodes& state);
  std::vector<std::pair<Id, StatusOr<NodeAnswer>>> TakeAnswers(const JobNodes& committed);
  // A node that has not heard of it asks again.
  void NoteAnswered(const StatusOr<NodeAnswer>&, bool /*was_told*/) {}

  uint64_t front() const { return front_; }

 private:
  struct Call {
    NodeCommand command;
    uint64_t sent = 0;  // the number of its command; 0: it has none
  };

  bool IsFolded(const Call& call, const JobNodes& state) const {
    return call.sent > 0 &&
           std::pair(state.front(), state.number()) >= std::pair(front_, call.sent);
  }

  uint64_t front_;
  uint64_t number_ = 0;  // of the last command
  std::map<Id, Call> calls_;
};

}  // namespace millrace
