// Data sets and commands for tests of tasks.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "processors/task_manager.h"

namespace millrace {

// 10 records, 3 in a task: 4 tasks an epoch.
inline TaskSetSpec TaskSet(std::string name = "rows", uint32_t epochs = 1) {
  TaskSetSpec spec;
  spec.set_name(std::move(name));
  spec.set_records(10);
  spec.set_records_per_task(3);
  spec.set_epochs(epochs);
  spec.set_most_failures(3);
  return spec;
}

inline TaskCommand TaskBegin(const TaskSetSpec& spec) {
  TaskCommand command;
  *command.mutable_begin() = spec;
  return command;
}

inline TaskCommand TaskGet(std::string worker, std::string set = "rows") {
  TaskCommand command;
  command.mutable_get()->set_worker(std::move(worker));
  command.mutable_get()->set_set(std::move(set));
  return command;
}

inline TaskCommand TaskResult(uint32_t lease, bool failed = false, std::string set = "rows") {
  TaskCommand command;
  command.mutable_result()->set_lease(lease);
  command.mutable_result()->set_failed(failed);
  command.mutable_result()->set_set(std::move(set));
  if (failed) command.mutable_result()->set_detail("no such file");
  return command;
}

// A manager, and words for what it is told.
class TestedTasks {
 public:
  Status Apply(TaskCommand command) {
    command.set_front(front);
    command.set_number(++number);
    return manager.Apply(command, tick);
  }
  void Do(const TaskCommand& command) { EXPECT_EQ(Apply(command), absl::OkStatus()); }
  // The lease that the worker gets, which it is told of or not; 0: none.
  uint32_t Get(const std::string& worker, bool is_told = true, const std::string& set = "rows") {
    Do(TaskGet(worker, set));
    const TaskState* task = manager.FoundFor(front, number);
    if (task == nullptr) return 0;
    const uint32_t lease = task->lease();
    if (is_told) {
      TaskCommand told;
      told.mutable_delivered()->add_lease(lease);
      Do(told);
    }
    return lease;
  }
  void Done(uint32_t lease) { Do(TaskResult(lease)); }
  void Fail(uint32_t lease) { Do(TaskResult(lease, true)); }
  void Ticks(uint64_t count) {
    for (; count > 0; --count) manager.Tick(++tick);
  }
  // Of the task that has this newest lease; -1: none has.
  int64_t NumberOf(uint32_t lease) const {
    for (const auto& [key, task] : manager.tasks()) {
      if (task.lease() == lease) return task.number();
    }
    return -1;
  }

  TaskManager manager;
  uint64_t front = 1;
  uint64_t number = 0;
  uint64_t tick = 0;
};

}  // namespace millrace
