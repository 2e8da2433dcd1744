// The logical workers of a process, each with its task.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/types.h"
#include "tasks/repeat_timer.h"
#include "tasks/worker_feed.h"
#include "tasks/worker_task.h"

namespace millrace {

// A task and what the loop remembers of it.
struct HostedTask {
  RepeatTimer repeat;
  std::unique_ptr<WorkerTask> task{};
  std::optional<WorkerFeed> feed{};
  Clock joined = 0;    // the running job; 0: it has been there from the beginning
  bool ended = false;  // its stream, as was said in the log
  Clock clock = 0;
  uint64_t denied_leaves = 0;
};

using HostedTasks = std::map<WorkerId, HostedTask>;

// The workers that read this partition of `weights`: one, or those of a group of servers.
inline std::vector<HostedTask*> ReadersOf(HostedTasks& tasks, int32_t partition) {
  std::vector<HostedTask*> readers;
  for (auto& [worker, hosted] : tasks) {
    const bool is_its_own = static_cast<int32_t>(worker) == partition;
    const bool is_shared = hosted.task->options().SharedPartition() == partition;
    if (is_its_own || is_shared) readers.push_back(&hosted);
  }
  return readers;
}

}  // namespace millrace
