// Calls of trainers and nodes, as gRPC hands them to a master: refused with a reason, or answered
// once, whatever other masters, aborted transactions and callers who have gone do in between.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "processors/node_calls.h"
#include "processors/task_calls.h"
#include "tests/fuzz/mutate_message.h"
#include "tests/fuzz/some_commands.h"
#include "tests/fuzz/target.h"
#include "topics/node_codec.h"

namespace millrace::fuzz {
namespace {

void Mutate(NodeCommand& call, ByteSource& bytes) {
  Mutate(static_cast<google::protobuf::Message&>(call), bytes);
}
void Mutate(TaskCall& call, ByteSource& bytes) {
  Mutate(static_cast<google::protobuf::Message&>(call.command), bytes);
}

NodeCommand SomeCall(const JobNodes& nodes, ByteSource& bytes) {
  if (bytes.Chance(16)) return {};
  return SomeNodeCommand(nodes, bytes);
}

// What callers say; the rest is a master's own.
TaskCall SomeCall(const TaskManager& tasks, ByteSource& bytes) {
  TaskCall call;
  call.command = SomeTaskCommand(tasks, bytes);
  const bool is_masters = call.command.has_delivered() || call.command.has_undelivered();
  if (!is_masters && !bytes.Chance(16)) return call;
  return {.command = {}, .reads = "rows"};
}

NodeCommand& CommandOf(NodeCommand& call) { return call; }
TaskCommand& CommandOf(TaskCall& call) { return call.command; }
// Whether the answer may have to wait for what others do.
bool MayWait(const NodeCommand& call) { return call.has_arrive(); }
bool MayWait(const TaskCall& call) { return call.command.has_get(); }

// The state that a master folds, and its clock.
class Nodes {
 public:
  using Calls = NodeCalls;
  const JobNodes& state() const { return state_; }
  void Fold(const NodeCommand& command) {
    MILLRACE_CHECK(CheckNodeCommand(command).ok());
    state_.Apply(command);
  }
  void Tick() { state_.Tick(++ticks_); }

 private:
  JobNodes state_;
  uint64_t ticks_ = 0;
};

class Tasks {
 public:
  using Calls = TaskCalls;
  const TaskManager& state() const { return state_; }
  void Fold(const TaskCommand& command) {
    MILLRACE_CHECK(CheckTaskCommand(command).ok());
    const Status folded = state_.Apply(command, ticks_);
    MILLRACE_CHECK(folded.ok() || !folded.message().empty());
  }
  void Tick() { state_.Tick(++ticks_); }

 private:
  TaskManager state_;
  uint64_t ticks_ = 0;
};

template <typename Fold>
class Desk {
 public:
  using Calls = typename Fold::Calls;

  explicit Desk(ByteSource& bytes) : bytes_(bytes) {}

  void Run() {
    while (!bytes_.empty()) Turn();
    Write(false);
    Answer();
    // A call for a task may have to be handed out once more, when there is one.
    Write(false);
    Answer();
    for (const auto& [id, call] : waiting_) MILLRACE_CHECK(MayWait(call));
  }

 private:
  void Turn() {
    switch (bytes_.Below(8)) {
      case 0:
        fold_.Tick();
        break;
      case 1:
        GoOnElsewhere();
        break;
      case 2:
        if (waiting_.empty()) break;
        calls_.Remove(waiting_.begin()->first);
        waiting_.erase(waiting_.begin());
        break;
      case 3:
        Write(bytes_.Chance(64));
        break;
      case 4:
        Answer();
        break;
      default:
        Call();
    }
  }

  void Call() {
    typename Calls::Asked call = SomeCall(fold_.state(), bytes_);
    CommandOf(call).clear_front();
    CommandOf(call).clear_number();
    if (bytes_.Chance(64)) Mutate(call, bytes_);
    const Status accepted = Calls::Check(call);
    if (!accepted.ok()) {
      MILLRACE_CHECK(absl::IsInvalidArgument(accepted) && !accepted.message().empty());
      return;
    }
    waiting_[++last_id_] = call;
    calls_.Add(last_id_, std::move(call));
  }

  void Write(bool aborts) {
    for (const typename Calls::Command& command : calls_.TakeCommands(fold_.state())) {
      if (!aborts) fold_.Fold(command);
    }
  }

  void Answer() {
    for (const auto& [id, answer] : calls_.TakeAnswers(fold_.state())) {
      MILLRACE_CHECK(waiting_.erase(id) == 1);
      MILLRACE_CHECK(answer.ok() || !answer.status().message().empty());
      calls_.NoteAnswered(answer, !bytes_.Chance(64));
    }
  }

  // Another master has written a command; then this one goes on.
  void GoOnElsewhere() {
    typename Calls::Asked call = SomeCall(fold_.state(), bytes_);
    typename Calls::Command command = CommandOf(call);
    command.set_front(calls_.front() + 1);
    command.set_number(1);
    if (Calls::Check(call).ok() && command.what_case() != Calls::Command::WHAT_NOT_SET) {
      fold_.Fold(command);
    }
    calls_.Restart(calls_.front() + 2, fold_.state());
  }

  ByteSource& bytes_;
  Fold fold_;
  Calls calls_{1};
  typename Calls::Id last_id_ = 0;
  std::map<typename Calls::Id, typename Calls::Asked> waiting_;
};

}  // namespace

void FuzzOne(ByteSource& bytes) {
  if (bytes.Chance(128)) {
    Desk<Tasks>(bytes).Run();
  } else {
    Desk<Nodes>(bytes).Run();
  }
}

}  // namespace millrace::fuzz
