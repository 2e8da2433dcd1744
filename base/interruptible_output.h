// Writes to what may have a slow reader or none: standard output, a named pipe.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace millrace {

// Waits for the reader as long as it takes, but not when the program is to stop: what is not taken
// within kPatience from then on is given up. Keeps nothing back. Not thread-safe.
class InterruptibleOutput {
 public:
  static constexpr std::chrono::seconds kPatience{1};

  // `fd` is open, and not closed here; `name` is that of errors. true in `stop`: the program is to
  // stop. Outlives the output.
  InterruptibleOutput(int fd, std::string name, const std::atomic<bool>& stop);
  static InterruptibleOutput OfStdout(const std::atomic<bool>& stop);

  // Writes all of it. Cancelled: it was given up, as all that follows will be that cannot be
  // written at once. Others are CannotWrite's (a reader that has gone).
  Status Write(std::string_view text);

 private:
  Status WaitForRoom();

  int fd_;
  std::string name_;
  const std::atomic<bool>* stop_;
  size_t most_at_once_;
  std::optional<std::chrono::steady_clock::time_point> patience_end_;
};

// Opens a file that is there for writing, and a named pipe when somebody reads it. Returns the
// descriptor, which the caller closes. Cancelled: stopped before anybody did. Others are
// CannotWrite's.
StatusOr<int> OpenInterruptibly(const std::string& path, const std::atomic<bool>& stop);

}  // namespace millrace
