#include "launcher/incarnation_folder.h"

#include <fcntl.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>
#include <sys/stat.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "base/atomic_file.h"
#include "base/file_error.h"
#include "base/private_file.h"
#include "base/whole_file.h"
#include "topics/control_codec.h"

namespace millrace {
namespace {

constexpr const char* kLock = "lock";
constexpr const char* kStop = "stop";
constexpr const char* kStarted = "started";
constexpr const char* kEnd = "end";
constexpr size_t kMostFileBytes = 1 << 16;

Status CannotRead(const std::string& path, int error) {
  return FileError(path + " cannot be read: " + std::strerror(error), error);
}

// By itself the parser prints what is wrong.
class NoPrinting : public google::protobuf::io::ErrorCollector {
  void AddError(int /*line*/, int /*column*/, const std::string& /*message*/) override {}
};

struct flock WholeFile() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

// The order matters, since a shim may begin or end between any two steps. `stop` and `started` are
// read before the lock: a shim that takes it later sees that `stop`; and a lock that is free after
// `started` was there is free for good. `end` is read after the lock, since a shim writes it before
// it lets go.
StatusOr<IncarnationState> IncarnationFolder::Look() const {
  using Stage = IncarnationState::Stage;
  MILLRACE_ASSIGN_OR_RETURN(const bool is_asked_to_stop, Has(kStop));
  MILLRACE_ASSIGN_OR_RETURN(const bool is_started, Has(kStarted));
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<pid_t> holder, LockHolder());
  MILLRACE_ASSIGN_OR_RETURN(const bool has_ended, Has(kEnd));
  IncarnationState state;
  if (has_ended) {
    state.stage = Stage::kEnded;
    MILLRACE_ASSIGN_OR_RETURN(state.end, ReadEnd());
  } else if (is_started) {
    state.stage = holder ? Stage::kRunning : Stage::kLost;
    MILLRACE_ASSIGN_OR_RETURN(state.command, ReadStarted());
  } else if (is_asked_to_stop && !holder) {
    state.stage = Stage::kEnded;
    state.end = EndOfNotBegun();
  }
  return state;
}

StatusOr<Descriptor> IncarnationFolder::OpenShim() const {
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<pid_t> holder, LockHolder());
  if (!holder) return Descriptor();
  if (*holder <= 0) {
    return absl::FailedPreconditionError(
        "the process of " + path_ +
        " runs in another container, where this MasterApp can neither watch nor stop it; stop "
        "that container, or run MasterApp in it");
  }
  Descriptor shim = OpenProcess(*holder);
  if (!shim.is_open() && errno != ESRCH) {
    const int error = errno;
    return FileError("process " + std::to_string(*holder) + " of " + path_ +
                         " cannot be watched: " + std::strerror(error),
                     error);
  }
  // Who still has the lock now is who was opened: the id has not become another's in between.
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<pid_t> still, LockHolder());
  if (still != holder) shim.Close();
  return shim;
}

Status IncarnationFolder::Make() const {
  const std::error_code error = MakePrivateFolder(path_);
  return error ? CannotWrite(path_, error.value()) : absl::OkStatus();
}

Status IncarnationFolder::AskToStop() const {
  MILLRACE_RETURN_IF_ERROR(Make());
  const Descriptor file(
      open(PathOf(kStop).c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
  return file.is_open() ? absl::OkStatus() : CannotWrite(PathOf(kStop), errno);
}

void IncarnationFolder::Remove() const {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

StatusOr<Descriptor> IncarnationFolder::TakeLock() const {
  Descriptor file(
      open(PathOf(kLock).c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file.is_open()) {
    return errno == ENOENT ? StatusOr<Descriptor>(Descriptor()) : CannotWrite(PathOf(kLock), errno);
  }
  struct flock lock = WholeFile();
  if (fcntl(file.number(), F_SETLK, &lock) == 0) return file;
  if (errno == EAGAIN || errno == EACCES) return Descriptor();
  return FileError(PathOf(kLock) + " cannot be locked: " + std::strerror(errno), errno);
}

StatusOr<bool> IncarnationFolder::WasBegun() const {
  MILLRACE_ASSIGN_OR_RETURN(const bool is_started, Has(kStarted));
  return is_started ? true : Has(kEnd);
}

StatusOr<bool> IncarnationFolder::IsAskedToStop() const { return Has(kStop); }

Status IncarnationFolder::WriteStarted(const ProcessIdentity& command) const {
  return WriteAtomicFile(PathOf(kStarted), std::to_string(command.pid) + " " +
                                               std::to_string(command.start_ticks) + " " +
                                               command.boot_id + "\n");
}

Status IncarnationFolder::WriteEnd(const ProcessEnd& end) const {
  std::string text;
  (void)google::protobuf::TextFormat::PrintToString(end, &text);
  return WriteAtomicFile(PathOf(kEnd), text);
}

StatusOr<bool> IncarnationFolder::Has(const std::string& name) const {
  struct stat info {};
  if (lstat(PathOf(name).c_str(), &info) == 0) return true;
  if (errno == ENOENT) return false;
  return CannotRead(PathOf(name), errno);
}

StatusOr<std::optional<pid_t>> IncarnationFolder::LockHolder() const {
  const Descriptor file(
      open(PathOf(kLock).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.is_open()) {
    if (errno == ENOENT) return std::nullopt;
    return CannotRead(PathOf(kLock), errno);
  }
  struct flock lock = WholeFile();
  // Asks without taking it: a shim that begins meanwhile still gets it.
  if (fcntl(file.number(), F_GETLK, &lock) != 0) return CannotRead(PathOf(kLock), errno);
  if (lock.l_type == F_UNLCK) return std::nullopt;
  return lock.l_pid;
}

StatusOr<ProcessIdentity> IncarnationFolder::ReadStarted() const {
  const StatusOr<std::string> text = ReadWholeFile(PathOf(kStarted), kMostFileBytes);
  if (!text.ok()) return NotWritten(kStarted, std::string(TextOf(text.status())));
  std::istringstream fields(*text);
  ProcessIdentity command;
  fields >> command.pid >> command.start_ticks >> command.boot_id;
  if (fields.fail() || command.pid <= 0) return NotWritten(kStarted, "it names no process");
  return command;
}

StatusOr<ProcessEnd> IncarnationFolder::ReadEnd() const {
  const StatusOr<std::string> text = ReadWholeFile(PathOf(kEnd), kMostFileBytes);
  if (!text.ok()) return NotWritten(kEnd, std::string(TextOf(text.status())));
  ProcessEnd end;
  NoPrinting errors;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  if (!parser.ParseFromString(*text, &end) || !CheckProcessEnd(end).ok()) {
    return NotWritten(kEnd, "it does not say how a process ended");
  }
  return end;
}

Status IncarnationFolder::NotWritten(const std::string& name, const std::string& why) const {
  return absl::FailedPreconditionError(PathOf(name) + " is not as it was written (" + why +
                                       "); remove the folder " + path_ +
                                       " when nothing of this process runs: it then counts as "
                                       "ended with an unknown exit status, and is started again");
}

ProcessEnd EndOfNotBegun() {
  ProcessEnd end;
  end.set_cause(ProcessEnd::SIGNALED);
  end.set_code(SIGTERM);
  end.set_detail("it was stopped before it began");
  return end;
}

}  // namespace millrace
