#include "base/interruptible_output.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <thread>
#include <utility>

#include "base/file_error.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLook(50);  // at the stop flag

// A pipe that has room has it for so many bytes: a call of no more does not wait.
size_t MostAtOnce(int fd) {
  struct stat about = {};
  const bool never_waits = fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
  return never_waits ? SIZE_MAX : size_t{PIPE_BUF};
}

}  // namespace

InterruptibleOutput::InterruptibleOutput(int fd, std::string name, const std::atomic<bool>& stop)
    : fd_(fd), name_(std::move(name)), stop_(&stop), most_at_once_(MostAtOnce(fd)) {}

InterruptibleOutput InterruptibleOutput::OfStdout(const std::atomic<bool>& stop) {
  return InterruptibleOutput(STDOUT_FILENO, "standard output", stop);
}

Status InterruptibleOutput::WaitForRoom() {
  pollfd output = {.fd = fd_, .events = POLLOUT, .revents = 0};
  while (true) {
    const int ready = poll(&output, 1, static_cast<int>(kLook.count()));
    if (ready > 0) return absl::OkStatus();  // also for an error, which the next write tells
    if (ready < 0 && errno != EINTR) return CannotWrite(name_, errno);
    if (!*stop_) continue;
    const auto now = steady_clock::now();
    if (!patience_end_) patience_end_ = now + kPatience;
    if (now < *patience_end_) continue;
    return absl::CancelledError("stopped while nobody read " + name_);
  }
}

Status InterruptibleOutput::Write(std::string_view text) {
  while (!text.empty()) {
    MILLRACE_RETURN_IF_ERROR(WaitForRoom());
    const ssize_t written = write(fd_, text.data(), std::min(text.size(), most_at_once_));
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR && errno != EAGAIN) {
      return CannotWrite(name_, errno);
    }
  }
  return absl::OkStatus();
}

StatusOr<int> OpenInterruptibly(const std::string& path, const std::atomic<bool>& stop) {
  while (true) {
    // A pipe without a reader is no error but when nobody waits; the writer above does not mind.
    const int fd = open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0) return fd;
    if (errno != ENXIO && errno != EINTR) return CannotWrite(path, errno);
    if (stop) return absl::CancelledError("stopped while nobody read " + path);
    std::this_thread::sleep_for(kLook);
  }
}

}  // namespace millrace
