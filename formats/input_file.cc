#include "formats/input_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

// How long is waited in silence before the owner is called again.
constexpr int kFirstWaitMilliseconds = 5;
constexpr int kWaitMilliseconds = 100;
// Whoever writes a file anew hardly writes the same so many bytes in the same place.
constexpr size_t kNewestBytes = 256;

int NextWait(int timeout) { return timeout == 0 ? kFirstWaitMilliseconds : kWaitMilliseconds; }

Status CannotDo(int error, const std::string& name, const std::string& what) {
  const std::string message = absl::StrCat("cannot ", what, " ", name, ": ", std::strerror(error));
  return error == ENOENT ? absl::NotFoundError(message) : absl::UnavailableError(message);
}

}  // namespace

InputFile::InputFile(std::string name, int fd, bool is_stdin, const Options& options)
    : name_(std::move(name)), fd_(fd), is_stdin_(is_stdin), options_(options) {}

InputFile::~InputFile() {
  if (!is_stdin_) close(fd_);
}

StatusOr<std::unique_ptr<InputFile>> InputFile::Open(std::string path, const Options& options) {
  const bool is_stdin = path == "-";
  std::string name = is_stdin ? "standard input" : std::move(path);
  // A named pipe that nobody writes to yet must not hold us here, where a stop would go unseen.
  const int fd = is_stdin ? STDIN_FILENO : open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return CannotDo(errno, name, "open");
  std::unique_ptr<InputFile> file(new InputFile(std::move(name), fd, is_stdin, options));
  struct stat info;
  if (fstat(fd, &info) != 0) return CannotDo(errno, file->name_, "read");
  if (S_ISDIR(info.st_mode)) return CannotDo(EISDIR, file->name_, "read");
  file->pollable_ = !S_ISREG(info.st_mode);
  if (S_ISREG(info.st_mode)) file->total_bytes_ = static_cast<uint64_t>(info.st_size);
  return file;
}

StatusOr<size_t> InputFile::Read(std::span<char> room) {
  while (true) {
    if (pollable_) MILLRACE_RETURN_IF_ERROR(WaitReadable());
    const ssize_t size = read(fd_, room.data(), room.size());
    if (size > 0) {
      received_bytes_ += static_cast<uint64_t>(size);
      if (options_.follow) KeepNewest(room.first(static_cast<size_t>(size)));
      return static_cast<size_t>(size);
    }
    if (size < 0) {
      if (errno != EINTR && errno != EAGAIN) return CannotDo(errno, name_, "read");
      continue;
    }
    // What it holds now is not what it held; its last record may have lost its end.
    if (received_bytes_ < total_bytes_.value_or(0)) {
      return absl::DataLossError(absl::StrCat(name_, " became shorter while it was read: it had ",
                                              *total_bytes_, " bytes, and ends after ",
                                              received_bytes_, ". Restore it and start again"));
    }
    if (!options_.follow || pollable_) return size_t{0};
    MILLRACE_RETURN_IF_ERROR(WaitForMore());
  }
}

Status InputFile::CheckStop() const {
  if (options_.stop == nullptr || !options_.stop->load(std::memory_order_relaxed)) {
    return absl::OkStatus();
  }
  return absl::CancelledError(absl::StrCat("stopped while reading ", name_));
}

Status InputFile::WaitReadable() {
  for (int timeout = 0;; timeout = NextWait(timeout)) {
    MILLRACE_RETURN_IF_ERROR(CheckStop());
    pollfd poll_fd = {fd_, POLLIN, 0};
    const int ready = poll(&poll_fd, 1, timeout);
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return CannotDo(errno, name_, "read");
    if (while_waiting_) MILLRACE_RETURN_IF_ERROR(while_waiting_());
  }
}

Status InputFile::WaitForMore() {
  for (int timeout = 0;; timeout = NextWait(timeout)) {
    MILLRACE_RETURN_IF_ERROR(CheckStop());
    (void)poll(nullptr, 0, timeout);
    MILLRACE_ASSIGN_OR_RETURN(const bool has_grown, HasGrown());
    if (has_grown) return absl::OkStatus();
    if (while_waiting_) MILLRACE_RETURN_IF_ERROR(while_waiting_());
  }
}

void InputFile::KeepNewest(std::span<const char> bytes) {
  const std::span<const char> end = bytes.last(std::min(bytes.size(), kNewestBytes));
  newest_.append(end.data(), end.size());
  if (newest_.size() > kNewestBytes) newest_.erase(0, newest_.size() - kNewestBytes);
}

// As log rotation by copying does, and then it may soon be longer than before.
bool InputFile::IsOverwritten() const {
  std::string now(newest_.size(), '\0');
  const auto begin = static_cast<off_t>(received_bytes_ - newest_.size());
  const ssize_t size = pread(fd_, now.data(), now.size(), begin);
  return size != static_cast<ssize_t>(now.size()) || now != newest_;
}

StatusOr<bool> InputFile::HasGrown() {
  // First the name, then the file that is open: so its last bytes are read before a new file of the
  // same name is an error.
  struct stat named;
  const bool is_named = stat(name_.c_str(), &named) == 0;
  struct stat opened;
  if (fstat(fd_, &opened) != 0) return CannotDo(errno, name_, "read");
  total_bytes_ = static_cast<uint64_t>(opened.st_size);
  if (*total_bytes_ > received_bytes_) {
    if (!IsOverwritten()) return true;
    return absl::DataLossError(absl::StrCat(
        name_, " was overwritten while it was followed: the last of ", received_bytes_,
        " bytes that were read are others now. Restore it and start again; for new content start a "
        "new job (another --job)"));
  }
  if (*total_bytes_ < received_bytes_) {
    return absl::DataLossError(absl::StrCat(
        name_, " became shorter while it was followed: ", received_bytes_,
        " bytes of it were read, and now it has ", *total_bytes_,
        ". Restore it and start again; for new content start a new job (another --job)"));
  }
  if (is_named && named.st_ino == opened.st_ino && named.st_dev == opened.st_dev) return false;
  return absl::DataLossError(absl::StrCat(
      name_, is_named ? " was replaced by another file" : " was moved or removed",
      " while it was followed, after ", received_bytes_,
      " bytes. Give the old file its name back and start again; for the new one start a new job "
      "(another --job)"));
}

}  // namespace millrace
