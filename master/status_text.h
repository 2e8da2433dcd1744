// What a master has to say of its processes and data sets: sentences, tables, JSON. Pure.
#pragma once

#include <string>
#include <vector>

#include "messages/master.pb.h"
#include "processors/task_manager.h"

namespace millrace {

// A data set that is dealt out as tasks (docs/tasks.md).
struct JobTaskSet {
  TaskSetState state;
  size_t open = 0;  // tasks that are dealt out and not done
};

// A job's processes and data sets, as the records of `plan` have them.
struct JobProcesses {
  MasterState state;
  std::vector<ProcessState> processes;  // by name
  std::vector<JobTaskSet> task_sets;    // by name
};

std::vector<JobTaskSet> TaskSetsOf(const TaskManager& tasks);

// A sentence for each process that has begun to run, ended or is being stopped since `before`, for
// each data set that has begun, is done or has lost a task, and for the job's phase. Without an end
// of line.
std::vector<std::string> News(const JobProcesses& before, const JobProcesses& now);

// The job's phase, and a line for each process: name, phase, incarnation, restarts, for how long,
// how it ended last; and a line for each data set, if there is one. ASCII; ends with an end of
// line.
std::string StatusTable(const std::string& job, const JobProcesses& now);

// The same for programs (docs/master.md), with an end of line.
std::string StatusJson(const std::string& job, const JobProcesses& now);

}  // namespace millrace
