// Logs which workers a shard waits for.
#pragma once

#include <chrono>
#include <map>

#include "base/types.h"
#include "tasks/shard_task.h"

namespace millrace {

// A sequential round waits for its slowest worker; this names it. Not thread-safe.
class WaitingReport {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Logs a line after each `interval` for which a shard has waited for the same record.
  explicit WaitingReport(std::chrono::duration<double> interval) : interval_(interval) {}

  // To be called often.
  void Tick(const ShardTask& task, Time now);

 private:
  struct Waiting {
    Offset position = -1;
    Time since;
    Time reported;
  };

  const std::chrono::duration<double> interval_;
  std::map<ShardId, Waiting> waiting_;
};

}  // namespace millrace
