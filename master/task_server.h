// Serves tasks to trainers by gRPC, as ElasticDL's Python client calls for them (docs/tasks.md);
// and their nodes (docs/nodes.md).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "master/node_desk.h"
#include "master/task_desk.h"

namespace millrace {

struct TaskServerOptions {
  std::string address;  // HOST:PORT; port 0: a free one
  // For the sets that are begun by it: TaskSetSpec.timeout_ticks, most_failures and, of a set that
  // is shuffled, shuffle.
  uint64_t timeout_ticks = 0;
  uint32_t most_failures = 3;
  uint64_t seed = 0;
  // What follows each set of training tasks that is begun by it: evaluations of so many records (0:
  // none), and the task at the end.
  int64_t evaluation_records = 0;
  int64_t evaluation_task_records = 0;  // 0: as many as a training task
  int64_t evaluation_every_tasks = 0;   // 0: as many as an epoch has
  bool end_task = false;
  // NodeCommand.Join.timeout_ticks of the nodes that join by it.
  uint64_t node_timeout_ticks = 30;
};

class TaskServer {
 public:
  // Both desks outlive the server. Unavailable: it cannot listen there.
  static StatusOr<std::unique_ptr<TaskServer>> Start(const TaskServerOptions& options,
                                                     TaskDesk& desk, NodeDesk& nodes);
  // Closes the desks, so that all calls end. REQUIRES: the thread that is the desks' loop.
  virtual ~TaskServer() = default;

  virtual int port() const = 0;
};

}  // namespace millrace
