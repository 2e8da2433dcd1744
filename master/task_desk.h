// Where trainers' threads ask for tasks.
#pragma once

#include "master/call_desk.h"
#include "processors/task_calls.h"

namespace millrace {

using TaskCaller = DeskCaller<TaskAnswer>;
using TaskDesk = CallDesk<TaskCalls, TaskCaller>;

}  // namespace millrace
