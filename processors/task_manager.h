// The data sets of a job that are dealt out as tasks, and who has which task.
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
#include "topics/task_codec.h"

namespace millrace {

// A fold of commands about tasks, ticks and the ends of workers. Pure; not thread-safe.
//
// A set's tasks are numbered over all epochs and dealt out in order, those that came back first.
// Each time that one is dealt out is a lease, with a number that no other lease of the job has. A
// result counts if it is of the newest lease of a task that is not done: so a task is done once,
// and who comes late, after the task has gone to another, changes nothing. A lease ends, and its
// task waits for another worker, when it is reported as failed, when its time is over, when its
// worker's process has ended, and when the worker could not be told of it. But in a set without
// fault tolerance (most_failures 0) a task of which a worker was told is given up instead.
//
// A set may be followed by two others, which are begun with it: NAME/evaluation, an epoch of which
// may be dealt out whenever so many more tasks of the set are over, and NAME/end, whose one task
// follows when both are done. (TaskSetState.open_epochs says how far.) Otherwise they are sets like
// any other. When the set begins again, so do they. (task_followers.cc)
//
// A master may die between the lease and the answer. So a lease knows the command that it answers
// until its worker is known to have been told. When that worker asks a later master for a task, it
// gets that one again.
class TaskManager {
 public:
  using Sets = std::map<std::string, TaskSetState>;  // by name
  using Key = std::pair<int64_t, std::string>;       // a task's number and its set's name
  using Tasks = std::map<Key, TaskState>;

  // A timeout doubles each time that it takes the task from somebody, at most so many times:
  // otherwise a task that takes longer would never be done.
  static constexpr uint32_t kMostDoublings = 10;

  // REQUIRES CheckTaskCommand. `tick` is MasterState.ticks. A command that is not behind the last
  // one changes nothing. InvalidArgument, and nothing changes but that it was the last one: a set
  // that is not known, or one too many.
  Status Apply(const TaskCommand& command, uint64_t tick);
  // Takes back what has been out for too long.
  void Tick(uint64_t tick);
  // The process of that name has ended: what it had goes to others.
  void EndOf(const std::string& worker);

  const Sets& sets() const { return sets_; }
  // ResourceExhausted, naming both: the job has no such set, and can have no more, or not with what
  // follows it. AlreadyExists: what would follow it is there, and was begun by somebody.
  Status CheckRoomFor(const TaskSetSpec& spec) const;
  const Tasks& tasks() const { return tasks_; }  // dealt out and not done
  uint64_t leases() const { return leases_; }    // so many there were
  uint64_t front() const { return front_; }
  uint64_t number() const { return number_; }  // of the last command of `front`

  // The sets that the command may get a task of, those first whose tasks are dealt out first: an
  // evaluation is of the model as it is now. All of them are known; none: its set is not.
  std::vector<std::string> SetsFor(const TaskCommand::Get& get) const;

  // Of a set that is known:
  bool IsDone(const std::string& set) const;
  // So many could be leased now.
  uint64_t FreeIn(const std::string& set) const;
  size_t OpenIn(const std::string& set) const;  // dealt out and not done
  TaskSetPosition PositionOf(const std::string& set) const;

  // The task that the command got, unless it is known to have been delivered; null: none.
  const TaskState* FoundFor(uint64_t front, uint64_t number) const;
  // Whether an earlier master than `front` has leased a task to the worker that it was perhaps
  // never told of.
  bool HasUntold(const std::string& set, const std::string& worker, uint64_t front) const;
  // Of a task that is known: its set, and the set that this one follows, if it does.
  bool IsOf(const TaskState& task, const std::string& set) const;

  // What has changed, come or gone since the last call.
  std::set<std::string> TakeChangedSets() { return std::exchange(changed_sets_, {}); }
  std::set<Key> TakeChangedTasks() { return std::exchange(changed_tasks_, {}); }

  void Save(MasterState& state) const;
  // REQUIRES a new manager. InvalidArgument with the reason why this was never saved.
  Status Load(const MasterState& state, Sets sets, Tasks tasks);

 private:
  Status ApplyNew(const TaskCommand& command, uint64_t tick);
  Status Begin(const TaskSetSpec& spec);
  Status Get(const TaskCommand& command, uint64_t tick);
  Status Finish(const TaskCommand::Result& result);
  Status Reset(const std::string& name);
  Status GoTo(const TaskSetPosition& position);
  StatusOr<TaskSetState*> SetOf(const std::string& name);
  TaskState* OfLease(uint32_t lease);  // the newest of its task; null: no such one
  TaskState* UntoldTo(const TaskCommand& command, const std::string& set);
  TaskState* NextOf(const std::string& set);

  // What follows a set begins, or begins again: `over` tasks of this one are over by now.
  void BeginFollowers(const TaskSetSpec& spec, int64_t over);
  // Deals out more of what follows the set, or what it follows.
  void OpenFollowers(const std::string& set);
  Status CheckFollower(const TaskSetState& set) const;

  TaskState& Add(const std::string& set, int64_t number);
  void Lease(TaskState& task, const TaskCommand& command, uint64_t tick);
  void SetTold(TaskState& task);
  void Release(TaskState& task);
  void Lose(TaskState& task, const std::string& why);
  void GiveUp(const TaskState& task, const std::string& why);
  void Remove(Key key);
  void RemoveAllOf(const std::string& set);
  void Index(const Key& key, const TaskState& task);
  Status CheckTask(const Key& key, const TaskState& task, uint64_t ticks) const;

  Sets sets_;
  Tasks tasks_;
  uint64_t leases_ = 0;
  uint64_t front_ = 0;
  uint64_t number_ = 0;
  std::set<std::string> changed_sets_;
  std::set<Key> changed_tasks_;

  // All of the following follow from tasks_.
  std::map<std::string, std::set<int64_t>> waiting_;     // not leased, by set
  std::map<std::string, size_t> open_;                   // by set
  std::map<uint32_t, Key> by_lease_;                     // without 0
  std::map<std::pair<uint64_t, uint64_t>, Key> untold_;  // by front and number
};

}  // namespace millrace
