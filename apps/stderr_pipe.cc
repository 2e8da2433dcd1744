#include "apps/stderr_pipe.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <string_view>

#include "base/interruptible_output.h"
#include "job/stop_signal.h"

namespace millrace {
namespace {

InterruptibleOutput NewOutput() {
  return InterruptibleOutput(STDERR_FILENO, "standard error", StopRequested());
}

// The stream's lock is held. Whoever prints cannot be told of an error, nor do anything about it.
ssize_t WriteToPipe(void* cookie, const char* text, size_t size) {
  auto& output = *static_cast<InterruptibleOutput*>(cookie);
  const Status written = output.Write({text, size});
  // A reader that is slow has its whole patience for each line; one that has none left, none.
  if (written.ok()) output = NewOutput();
  return written.ok() || absl::IsCancelled(written) ? static_cast<ssize_t>(size) : 0;
}

}  // namespace

void StopWaitingForTheLogsReader() {
  struct stat about = {};
  if (fstat(STDERR_FILENO, &about) != 0) return;
  if (!S_ISFIFO(about.st_mode) && !S_ISSOCK(about.st_mode)) return;
  // Never destroyed, nor closed: threads may print until the process is gone.
  static auto& output = *new InterruptibleOutput(NewOutput());
  cookie_io_functions_t functions = {};
  functions.write = WriteToPipe;
  std::FILE* const stream = fopencookie(&output, "w", functions);
  if (stream == nullptr) return;
  std::setvbuf(stream, nullptr, _IONBF, 0);  // as that of stderr
  stderr = stream;
}

}  // namespace millrace
