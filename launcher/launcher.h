// What carries a master's orders out: on this machine (local_launcher.h), or in a cluster
// (kubernetes/kubernetes_launcher.h).
#pragma once

#include <atomic>
#include <vector>

#include "base/status.h"
#include "messages/master.pb.h"

namespace millrace {

// It remembers in its own place, not in the master, what was started: a master that is killed
// leaves its processes running, and its successor's launcher sees all of them. An older master may
// carry orders of an old state out at the same time, which must do no harm: so what was started,
// stopped or forgotten once is not started any more. Used by one thread.
class Launcher {
 public:
  virtual ~Launcher() = default;

  // Starts this incarnation of the process, unless it was started, stopped or forgotten before, by
  // any master: then nothing happens. Returns before it runs. A program that cannot be executed is
  // no error here; it is seen as ended (NOT_STARTED). Errors: what keeps this launcher from working
  // at all.
  virtual Status Start(const ProcessOrder& order) = 0;
  // Asks it to end (SIGTERM), and kills it when it has not ended after the grace time. One that was
  // not started yet is not started any more, and is seen as ended. Nothing happens if it has ended,
  // or was asked before.
  virtual Status Stop(const ProcessOrder& order) = 0;
  // All incarnations that were started, or stopped before, and not forgotten: they run, or how they
  // ended. Ended means that no process of it is left.
  virtual StatusOr<std::vector<ProcessReport>> Look() = 0;
  // The process's incarnations before this one are over: they are not looked at, and not started,
  // any more.
  virtual Status Forget(const ProcessName& process, uint64_t before) = 0;
  // From now on Look shows whatever other masters had started before this call. Cancelled when
  // `stop` is set.
  virtual Status Resync(const std::atomic<bool>& /*stop*/) { return absl::OkStatus(); }
};

}  // namespace millrace
