// Data sets that a master deals out as tasks: the commands about them, checked, and which records a
// task has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "messages/master.pb.h"

namespace millrace {

inline constexpr size_t kMostTaskSets = 100;  // of a job
// Dealt out and not done, of all data sets of a job.
inline constexpr size_t kMostOpenTasks = 20'000;
inline constexpr int64_t kMostTasks = 1'000'000'000'000;  // of a data set, over all epochs
// Trainers number leases by 32 bits with a sign.
inline constexpr uint64_t kMostLeases = 2'147'483'647;
inline constexpr uint64_t kMostTaskCommand = uint64_t{1} << 62;  // TaskCommand.front and .number
inline constexpr size_t kMostTaskSetNameBytes = 255;
inline constexpr size_t kMostTaskWorkerBytes = 100;
inline constexpr size_t kMostTaskDetailBytes = 1'024;

// Types of tasks (TaskSetSpec.type), by the numbers of proto::TaskType.
inline constexpr int32_t kEvaluationTask = 2;
inline constexpr int32_t kEndTask = 5;

// The names of the sets that follow a set of that name.
std::string EvaluationSetOf(const std::string& name);
std::string EndSetOf(const std::string& name);

// InvalidArgument, which says what is wrong. (One that follows another, which is in no command, is
// taken as well.)
Status CheckTaskSet(const TaskSetSpec& spec);
Status CheckTaskPosition(const TaskSetPosition& position);
Status CheckTaskCommand(const TaskCommand& command);

// In the following the set is one that CheckTaskSet takes, and a task's number is in
// [0, TasksOf(spec)).

int64_t TasksPerEpoch(const TaskSetSpec& spec);
int64_t TasksOf(const TaskSetSpec& spec);  // of all epochs

// The sets that follow this one: NAME/evaluation, an epoch of which is an evaluation, and NAME/end.
std::vector<TaskSetSpec> FollowersOf(const TaskSetSpec& spec);

// Of the task that was dealt out last, from 1; 0: none was.
int64_t EpochAt(const TaskSetSpec& spec, int64_t dealt);

struct TaskRange {
  int64_t begin = 0;  // records
  int64_t end = 0;
};
// Each epoch's ranges are all records, each once. Their order is that of the records, or follows
// from the seed and the epoch.
TaskRange RangeOfTask(const TaskSetSpec& spec, int64_t number);

}  // namespace millrace
