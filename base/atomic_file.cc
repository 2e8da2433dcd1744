#include "base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/file_error.h"

namespace millrace {

namespace {

// The file would take the link's place: of /dev/stdout, whatever standard output is, or of a link
// whose file somebody else is to make.
bool IsLinkThatMustStay(const std::string& path) {
  std::error_code error;
  const std::filesystem::path leads_to = std::filesystem::read_symlink(path, error);
  if (error) return false;  // it is no link
  return leads_to.string().starts_with("/proc/") || !std::filesystem::exists(path, error);
}

}  // namespace

StatusOr<AtomicFile> AtomicFile::Create(const std::string& path) {
  if (IsLinkThatMustStay(path)) {
    return absl::FailedPreconditionError(
        "cannot write " + path +
        ": it is a link to no file that could be replaced; name another one");
  }
  struct stat there {};
  if (stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    return absl::FailedPreconditionError("cannot write " + path + ": it is " +
                                         (S_ISDIR(there.st_mode) ? "a folder" : "no regular file") +
                                         "; name another one");
  }
  AtomicFile file(path, nullptr);
  // What a crash has left there goes; so does a link that somebody else has put there, which is
  // never followed.
  MILLRACE_RETURN_IF_ERROR(WriteLock::RemoveAbandonedFile(file.temporary(), path));
  const int descriptor =
      open(file.temporary().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (descriptor < 0) return errno == EEXIST ? WriteLock::Busy(path) : file.Failed();
  file.file_.reset(fdopen(descriptor, "wb"));
  if (file.file_ == nullptr) {
    Status failed = file.Failed();
    (void)close(descriptor);
    return failed;
  }
  StatusOr<WriteLock> lock = WriteLock::TakeOpen(descriptor, file.temporary(), path);
  if (!lock.ok()) {
    file.file_ = nullptr;  // what stands there is not its own
    return lock.status();
  }
  file.lock_.emplace(*std::move(lock));
  return file;
}

AtomicFile::~AtomicFile() {
  if (file_ != nullptr) (void)std::remove(temporary().c_str());
}

Status AtomicFile::Failed() const { return CannotWrite(path_, errno); }

Status AtomicFile::Append(std::string_view bytes) {
  MILLRACE_CHECK(file_ != nullptr);
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) == bytes.size();
  return written ? absl::OkStatus() : Failed();
}

Status AtomicFile::Rewind() {
  MILLRACE_CHECK(file_ != nullptr);
  return std::fseek(file_.get(), 0, SEEK_SET) == 0 ? absl::OkStatus() : Failed();
}

Status AtomicFile::Commit() {
  MILLRACE_CHECK(file_ != nullptr);
  if (std::fflush(file_.get()) != 0 || fsync(fileno(file_.get())) != 0 ||
      std::rename(temporary().c_str(), path_.c_str()) != 0) {
    return Failed();
  }
  return std::fclose(file_.release()) == 0 ? absl::OkStatus() : Failed();
}

Status WriteAtomicFile(const std::string& path, std::string_view bytes) {
  MILLRACE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  MILLRACE_RETURN_IF_ERROR(file.Append(bytes));
  return file.Commit();
}

}  // namespace millrace
