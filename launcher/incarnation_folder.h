// The files of one incarnation of a process, by which its shim and all launchers know where it
// stands.
//
//   lock      held by the shim for as long as it lives (a record lock of fcntl). The kernel knows
//             its holder's process id: so no id is ever taken for that of another process, not
//             after the machine was started again either
//   stop      the process is to end, or not to begin any more
//   started   which process the command became; there before the command begins
//   end       ProcessEnd as text; there when nothing that the command started runs any more
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "launcher/descriptor.h"
#include "launcher/running_process.h"
#include "messages/master.pb.h"

namespace millrace {

// Where an incarnation stands.
struct IncarnationState {
  enum class Stage {
    kNotBegun,  // nothing was started, or its shim has just been
    kRunning,   // its shim lives
    kEnded,     // `end`
    kLost       // its shim was killed; `command` may still be there for a moment
  };
  Stage stage = Stage::kNotBegun;
  ProcessEnd end{};
  ProcessIdentity command{};
};

// Any process may call anything at any time. Errors are FileError's, and FailedPrecondition: a file
// is not what a shim or launcher has written there, with the remedy. Not thread-safe.
class IncarnationFolder {
 public:
  // Creates nothing.
  explicit IncarnationFolder(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }

  StatusOr<IncarnationState> Look() const;
  // Its shim as a pidfd; not open: none lives. FailedPrecondition: it lives in another container.
  StatusOr<Descriptor> OpenShim() const;

  Status Make() const;
  // Writes `stop`; the folder is made if it is not there. Once, however often it is called.
  Status AskToStop() const;
  // The folder and what is in it. What cannot be removed stays.
  void Remove() const;

  // For the shim. The lock is held until the descriptor is closed. Meanwhile this process must call
  // neither Look nor OpenShim: they open and close the same file, which lets go of the lock. Not
  // open: another shim has it, or the folder has been removed.
  StatusOr<Descriptor> TakeLock() const;
  // Whether it was started, or was asked to stop, or is over: nothing is to begin. REQUIRES: the
  // lock, or another shim may do so meanwhile.
  StatusOr<bool> WasBegun() const;
  StatusOr<bool> IsAskedToStop() const;
  Status WriteStarted(const ProcessIdentity& command) const;
  Status WriteEnd(const ProcessEnd& end) const;

 private:
  std::string PathOf(const std::string& name) const { return path_ + "/" + name; }
  StatusOr<bool> Has(const std::string& name) const;
  StatusOr<std::optional<pid_t>> LockHolder() const;
  StatusOr<ProcessIdentity> ReadStarted() const;
  StatusOr<ProcessEnd> ReadEnd() const;
  Status NotWritten(const std::string& name, const std::string& why) const;

  std::string path_;
};

// The end of an incarnation that was asked to stop before it began.
ProcessEnd EndOfNotBegun();

}  // namespace millrace
