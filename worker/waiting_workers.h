// What people want to know of workers that wait.
#pragma once

#include <chrono>
#include <set>

#include "base/types.h"
#include "worker/hosted_workers.h"

namespace millrace {

// Says in the log what is waited for, when that has lasted. Used by one thread.
class WaitingWorkers {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit WaitingWorkers(Time now)
      : silent_since_(now), silence_reported_(now), idle_since_(now) {}

  // Nobody trains before every shard has answered: which ones have not.
  void ReportSilence(const std::set<ShardId>& silent, Time now);
  // A process that hosts no worker looks broken, and need not be.
  void ReportIdle(bool has_workers, const HostedWorkers& hosted, Time now);

 private:
  Time silent_since_;
  Time silence_reported_;
  Time idle_since_;
  bool idle_reported_ = false;
};

}  // namespace millrace
