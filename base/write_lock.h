// Tells what another process is writing from what a killed one has left.
#pragma once

#include <string>
#include <utility>

#include "base/status.h"

namespace millrace {

// What is written under a temporary name is locked (flock) until it has its final one. The lock is
// of the file or folder, whatever its name, and ends with this object or the process. Not
// thread-safe.
class WriteLock {
 public:
  // Locks the file or folder that this process has just made at `temporary`, on the way to `name`.
  // FailedPrecondition: another process is writing it, or has just removed it. CannotWrite's.
  static StatusOr<WriteLock> Take(const std::string& temporary, const std::string& name);
  // Removes what stands at `temporary`, if anything. FailedPrecondition: it is locked.
  static Status RemoveAbandoned(const std::string& temporary, const std::string& name);
  // The FailedPrecondition of both.
  static Status Busy(const std::string& name);

  WriteLock(WriteLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  WriteLock& operator=(WriteLock&&) = delete;
  ~WriteLock();

 private:
  explicit WriteLock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;  // -1: moved from
};

}  // namespace millrace
