// What a WorkerApp says of messages that its workers cannot use.
#pragma once

#include "tasks/worker_task.h"

namespace millrace {

// A worker that gets no other answers waits for ever. Said ever more seldom.
void WarnOfUnusableAnswer(const WorkerTask& task);
// Said ever more seldom, too.
void WarnOfDeniedLeave(const WorkerTask& task);

}  // namespace millrace
