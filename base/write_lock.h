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
  // The same of what is open as `descriptor`, which stays the caller's.
  static StatusOr<WriteLock> TakeOpen(int descriptor, const std::string& temporary,
                                      const std::string& name);
  // Removes what a killed process has left at `temporary`: a file, or a folder with what is in it.
  // FailedPrecondition: it is locked. A folder where a file is expected is nobody's to remove
  // (CannotWrite).
  static Status RemoveAbandonedFile(const std::string& temporary, const std::string& name);
  static Status RemoveAbandonedFolder(const std::string& temporary, const std::string& name);
  // The FailedPrecondition of both.
  static Status Busy(const std::string& name);

  WriteLock(WriteLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  WriteLock& operator=(WriteLock&&) = delete;
  ~WriteLock();

 private:
  explicit WriteLock(int descriptor) : descriptor_(descriptor) {}

  static Status RemoveUnlocked(const std::string& temporary, const std::string& name);
  Status Lock(const std::string& temporary, const std::string& name) const;

  int descriptor_;  // -1: moved from
};

}  // namespace millrace
