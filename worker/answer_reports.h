// What a worker says of answers that it cannot use. Said ever more seldom.
#pragma once

#include <cstdint>

#include "tasks/worker_task.h"

namespace millrace {

// To be called after each. A worker that gets no other answers waits for ever.
void ReportUnusableAnswers(const WorkerTask& task);

// `said`: how many there were at the last call.
void ReportDeniedLeaves(const WorkerTask& task, uint64_t& said);

}  // namespace millrace
