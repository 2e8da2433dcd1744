// The launcher of this machine.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "launcher/descriptor.h"
#include "launcher/incarnation_folder.h"
#include "launcher/launcher.h"
#include "launcher/process_watch.h"
#include "launcher/run_folder.h"
#include "messages/master.pb.h"

namespace millrace {

struct LocalLauncherOptions {
  std::string run_dir;  // made if it is not there (run_folder.h); of this job only
  std::string job;
  uint64_t epoch = 0;
  std::string shim;                         // the path of the program ProcessShim
  std::chrono::milliseconds grace{30'000};  // of the processes that are started from now on
  // Called by a thread of the launcher when Look may show something new.
  std::function<void()> on_change;
};

// Each incarnation is run by a shim (shim.h), a process that goes on without the launcher and notes
// how it ended. What it does is decided by the files of the incarnation alone
// (incarnation_folder.h): two launchers of the same job, of which one was meant to be dead, start
// nothing twice, and what a launcher has not done when it is killed, the next one does when it is
// told the same. Used by one thread.
class LocalLauncher final : public Launcher {
 public:
  // FailedPrecondition: the folder is another job's, or knows no locks. FileError's.
  static StatusOr<std::unique_ptr<LocalLauncher>> Create(LocalLauncherOptions options);
  // What it has started goes on.
  ~LocalLauncher() override = default;

  // InvalidArgument: there is no command, or a name or incarnation that cannot be.
  // FailedPrecondition: the incarnation is forgotten: this is not the newest master. FileError's;
  // ResourceExhausted: the machine has no room for another process.
  Status Start(const ProcessOrder& order) override;
  Status Stop(const ProcessOrder& order) override;
  StatusOr<std::vector<ProcessReport>> Look() override;
  // What should still run of them is stopped.
  Status Forget(const ProcessName& process, uint64_t before) override;

  // What the process has written to standard output and error, all its incarnations; no file yet if
  // none was started. It is LOG.old with kMostLogBytes, and begins anew with the next incarnation.
  // REQUIRES: a name that Start takes.
  std::string LogPath(const ProcessName& process) const;

 private:
  LocalLauncher(LocalLauncherOptions options, RunFolder folder,
                std::unique_ptr<ProcessWatch> watch);

  // Errors are InvalidArgument.
  static StatusOr<std::string> NameOf(const ProcessOrder& order);
  Status SpawnShim(const std::string& name, const IncarnationFolder& folder,
                   const ProcessOrder& order);
  // Notes which shims ended before they could write anything.
  Status NoteFailedShims();
  Status StopIncarnation(const IncarnationFolder& folder) const;
  // Its state, which is watched from now on if it runs. What a killed shim has left is killed.
  StatusOr<IncarnationState> LookAt(const IncarnationFolder& folder);
  Status Drop(const IncarnationFolder& folder);

  const LocalLauncherOptions options_;
  const RunFolder folder_;
  // By the path of the incarnation's folder: its shim could not begin.
  std::map<std::string, ProcessEnd> failed_shims_;
  const std::unique_ptr<ProcessWatch> watch_;  // its keys are paths of incarnations' folders
};

}  // namespace millrace
