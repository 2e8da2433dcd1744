// The loop of a job's master.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "kafka/wakeup.h"
#include "launcher/launcher.h"
#include "master/job_view.h"
#include "master/task_server.h"
#include "messages/job.pb.h"
#include "messages/master.pb.h"

namespace millrace {

// Ends the loop's wait when a process may have ended.
class MasterWakeup {
 public:
  // Thread-safe.
  void NoteProcesses() {
    look_ = true;
    wakeup_.Notify();
  }

  // For the loop.
  bool TakeLook() { return look_.exchange(false); }
  Wakeup& wakeup() { return wakeup_; }

 private:
  std::atomic<bool> look_ = false;
  Wakeup wakeup_;
};

struct MasterOptions {
  ProcessPlan plan;     // REQUIRES CheckPlan(plan)
  std::string run_dir;  // an absolute path; kFolderInPods (job_processes.h) in a cluster
  std::string place{};  // in a cluster: "the namespace training"
  // What an earlier master has started is gone with its run folder.
  bool run_dir_is_lost = false;
  TaskServerOptions tasks;  // without an address: none are served
  // Where the job leases rows of input-data to workers (docs/leases.md): so many at a time; 0: by
  // how many there have been.
  bool leases_rows = false;
  uint64_t lease_rows = 0;
};

// Runs the plan until the job has ended, failed or was stopped, and returns how its processes then
// stand. REQUIRES PrepareMasterTopics (master_log.h). `stop`, once it is set, stops the job's
// processes. `wakeup` is notified by the launcher; all outlive the call.
//
// What it does stands in Kafka before it does it, so it may be killed at any time: its processes
// run on, and the next master continues. Errors: fenced, when another master has taken over;
// FailedPrecondition with the remedy, when the job is run in another folder or on another machine;
// Cancelled when it was stopped before it had begun; those of the launcher and of Kafka that
// waiting does not mend, and of RowLeases; Unavailable when tasks cannot be served at their address
// for a while.
// After an error the processes run on.
StatusOr<JobProcesses> RunMaster(const JobConfig& config, const MasterOptions& options,
                                 Launcher& launcher, MasterWakeup& wakeup,
                                 const std::atomic<bool>& stop);

}  // namespace millrace
