// Between the threads that have trainers' calls and the loop that folds them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "kafka/wakeup.h"
#include "processors/task_calls.h"

namespace millrace {

// Who waits for the answer to a call. Called by one thread at a time.
class TaskCaller {
 public:
  virtual ~TaskCaller() = default;
  // Nobody reads the answer any more.
  virtual bool HasGone() = 0;
  // Once, as the last call.
  virtual void Answer(const StatusOr<TaskAnswer>& answer) = 0;
};

// Ask is thread-safe; the others are the loop's.
class TaskDesk {
 public:
  static constexpr size_t kMostCalls = 10'000;  // that wait at a time

  // `wakeup` is notified of calls and outlives the desk.
  explicit TaskDesk(Wakeup& wakeup) : wakeup_(wakeup) {}
  // Closes it.
  ~TaskDesk() { Close(); }

  // The caller is answered later, or at once with an error: InvalidArgument, the command cannot be
  // used; ResourceExhausted, too many wait; Unavailable, the desk is closed.
  void Ask(TaskCall call, std::unique_ptr<TaskCaller> caller);
  // Answers all that wait, and all that come, with Unavailable.
  void Close();

  // Before the first turn, and when the loop has read `control` to its end anew: `next` is the next
  // offset. Calls that wait do so over that.
  void Open(Offset next, const TaskManager& state);
  // As TaskCalls. REQUIRES Open.
  std::vector<TaskCommand> TakeCommands(const TaskManager& state);
  void Answer(const TaskManager& committed);

 private:
  // Moves both away, unless it refuses.
  Status Accept(TaskCall& call, std::unique_ptr<TaskCaller>& caller);

  Wakeup& wakeup_;
  std::optional<TaskCalls> calls_;
  TaskCalls::Id last_id_ = 0;
  std::map<TaskCalls::Id, std::unique_ptr<TaskCaller>> callers_;  // of calls_

  std::mutex mutex_;  // for what follows
  bool is_closed_ = false;
  size_t waiting_ = 0;
  std::vector<std::pair<TaskCall, std::unique_ptr<TaskCaller>>> new_;
};

}  // namespace millrace
