// The calls of trainers that a master has not answered yet. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "messages/master.pb.h"
#include "processors/task_manager.h"

namespace millrace {

// What a trainer wants: a command for the fold, with `what` only; or to be told where a set stands.
struct TaskCall {
  TaskCommand command;
  std::string reads{};  // the name of a set, when there is no command
  // Of a get: false: it is answered at once, also when there is no task now.
  bool waits = true;
  // Of a get of a set that follows another: the name of that one.
  std::string follows{};
};

struct TaskAnswer {
  enum class Kind {
    kFolded,
    kTask,
    kNoTaskNow,  // to who does not wait
    kSetIsDone,  // there will be none; also where the set is not followed by what is asked for
    kPosition,
  };

  Kind kind = Kind::kFolded;
  // kTask:
  uint32_t lease = 0;
  TaskRange range;
  int32_t type = 0;
  std::string set{};  // that it is of; of the task at the end, the one that this follows
  int64_t epoch = 0;  // of the set, from 1; of an evaluation its number
  // kPosition; without a spec: there is no such set.
  TaskSetPosition position;
};

// A call becomes a command of `control`, and is answered when the state that has it folded is in
// `plan`: whatever was answered survives the master. A call for a task waits until there is one or
// the set is done, and becomes a command of `control` only then; it also waits as long as nobody
// has begun a set of that name. One that does not wait is told that there is no task now. Not
// thread-safe.
class TaskCalls {
 public:
  using Asked = TaskCall;
  using Command = TaskCommand;
  using State = TaskManager;
  using Id = uint64_t;  // the caller's; never used twice

  // InvalidArgument: its command cannot be used.
  static Status Check(const TaskCall& call);

  // `front` is the next offset of `control` when the master began: TaskCommand.front.
  explicit TaskCalls(uint64_t front) : front_(front) {}

  // Goes on with a state that another master has changed in between, whose commands make those of
  // the old `front` void. What is not answered is handed out again.
  void Restart(uint64_t front, const TaskManager& state);

  void Add(Id id, TaskCall call) { calls_[id] = {std::move(call), 0}; }
  // Nobody waits for the answer any more.
  void Remove(Id id);

  // What is to be written to `control` now. REQUIRES: `state` has folded all that was written.
  // (What it lacks of earlier commands was not written, and is handed out again.)
  std::vector<TaskCommand> TakeCommands(const TaskManager& state);
  // The calls that are answered, each once, oldest first. REQUIRES: `plan` has this state.
  // ResourceExhausted, AlreadyExists: that of TaskManager::CheckRoomFor, to whom wants to begin a
  // set.
  std::vector<std::pair<Id, StatusOr<TaskAnswer>>> TakeAnswers(const TaskManager& committed);
  // What became of the answer with this lease.
  void NoteTold(uint32_t lease, bool was_told) { (was_told ? told_ : untold_).insert(lease); }
  void NoteAnswered(const StatusOr<TaskAnswer>& answer, bool was_told) {
    if (!answer.ok() || answer->kind != TaskAnswer::Kind::kTask) return;
    NoteTold(answer->lease, was_told);
  }

  uint64_t front() const { return front_; }

 private:
  struct Call {
    TaskCall call;
    uint64_t sent = 0;  // the number of its command; 0: it has none
  };
  struct Notes {
    std::set<uint32_t> leases;
    uint64_t sent = 0;
  };

  bool IsFolded(uint64_t number, const TaskManager& state) const {
    return std::pair(state.front(), state.number()) >= std::pair(front_, number);
  }
  TaskCommand& AddCommand(std::vector<TaskCommand>& commands);
  void AddNotes(std::vector<TaskCommand>& commands, const TaskManager& state);
  bool MayGet(const TaskCommand::Get& get, const TaskManager& state,
              std::map<std::string, uint64_t>& asked) const;
  bool AnswerWithoutTask(const TaskCall& call, const TaskManager& committed,
                         TaskAnswer& answer) const;
  bool Answer(Call& call, const TaskManager& committed, TaskAnswer& answer) const;
  bool AnswerGet(Call& call, const TaskManager& committed, TaskAnswer& answer) const;

  uint64_t front_;
  uint64_t number_ = 0;  // of the last command
  std::map<Id, Call> calls_;
  std::set<uint64_t> abandoned_;  // commands whose callers have gone
  std::set<uint32_t> told_;
  std::set<uint32_t> untold_;
  Notes sent_told_;
  Notes sent_untold_;
};

}  // namespace millrace
