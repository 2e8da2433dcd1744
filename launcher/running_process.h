// Processes of this machine, told apart although their ids are used again.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/descriptor.h"

namespace millrace {

// No two processes have the same, not even after a reboot.
struct ProcessIdentity {
  pid_t pid = 0;
  uint64_t start_ticks = 0;  // since the machine was started, in clock ticks
  std::string boot_id;       // of this start of the machine

  bool operator==(const ProcessIdentity&) const = default;
};

// Empty: no such process runs (any more). One that has ended and was not waited for runs no more.
std::optional<ProcessIdentity> IdentityOf(pid_t pid);

// A pidfd: it becomes readable when the process ends, and never stands for another one. Not open:
// no such process runs, or it is another one.
Descriptor OpenProcess(pid_t pid);
Descriptor OpenProcess(const ProcessIdentity& identity);

// Does nothing if the process has ended. Returns an errno: 0, or EPERM (it is another user's).
int SendSignal(const Descriptor& process, int signal);

// The children of this process that were not waited for.
std::vector<pid_t> OwnChildren();

}  // namespace millrace
