#include "base/write_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/file_error.h"

namespace millrace {
namespace {

// Whether the path still is the file that is open.
bool IsAt(int descriptor, const std::string& path) {
  struct stat open {};
  struct stat named {};
  return fstat(descriptor, &open) == 0 && lstat(path.c_str(), &named) == 0 &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

}  // namespace

StatusOr<WriteLock> WriteLock::Take(const std::string& temporary, const std::string& name) {
  const int descriptor = open(temporary.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return errno == ENOENT ? Busy(name) : CannotWrite(name, errno);
  WriteLock lock(descriptor);
  MILLRACE_RETURN_IF_ERROR(lock.Lock(temporary, name));
  return lock;
}

StatusOr<WriteLock> WriteLock::TakeOpen(int descriptor, const std::string& temporary,
                                        const std::string& name) {
  WriteLock lock(fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  if (lock.descriptor_ < 0) return CannotWrite(name, errno);
  MILLRACE_RETURN_IF_ERROR(lock.Lock(temporary, name));
  return lock;
}

Status WriteLock::Lock(const std::string& temporary, const std::string& name) const {
  // (A disk that knows no locks is written to without one.)
  if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return Busy(name);
  return IsAt(descriptor_, temporary) ? absl::OkStatus() : Busy(name);
}

// Only who has the lock removes it: so nothing that another process has made there meanwhile.
Status WriteLock::RemoveUnlocked(const std::string& temporary, const std::string& name) {
  MILLRACE_ASSIGN_OR_RETURN(const WriteLock lock, Take(temporary, name));
  std::error_code error;
  std::filesystem::remove_all(temporary, error);
  return error ? CannotWrite(temporary, error.value()) : absl::OkStatus();
}

Status WriteLock::RemoveAbandonedFolder(const std::string& temporary, const std::string& name) {
  std::error_code error;
  const bool is_there = std::filesystem::exists(std::filesystem::symlink_status(temporary, error));
  return is_there ? RemoveUnlocked(temporary, name) : absl::OkStatus();
}

Status WriteLock::RemoveAbandonedFile(const std::string& temporary, const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status found = fs::symlink_status(temporary, error);
  if (fs::is_directory(found)) return CannotWrite(name, EISDIR);
  if (fs::is_regular_file(found)) return RemoveUnlocked(temporary, name);
  fs::remove(temporary, error);  // such as a link that somebody has put there; or nothing
  return error ? CannotWrite(temporary, error.value()) : absl::OkStatus();
}

Status WriteLock::Busy(const std::string& name) {
  return absl::FailedPreconditionError("another process is writing " + name +
                                       "; wait for it, or give another name");
}

WriteLock::~WriteLock() {
  if (descriptor_ >= 0) (void)close(descriptor_);
}

}  // namespace millrace
