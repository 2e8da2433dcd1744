// Part of each program: opens what is closed of standard input, output and error when it begins.
//
// Else the first descriptors that a program opens get their numbers, and what is printed goes into
// one of them. Libraries open some before main begins, in their constructors (gRPC's queue of
// events is one), so this runs before these: by .preinit_array, which an executable alone may have.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

// It calls the kernel, since a sanitizer that has not begun yet takes part in other calls.
__attribute__((no_sanitize("address", "thread", "undefined"))) void OpenClosedStreams(
    int /*argc*/, char** /*argv*/, char** /*environment*/) {
  // Each is opened for what nobody does with it: who reads rows from a standard input that is
  // closed, or writes rows to such an output, gets an error, and no empty file. Log lines are not
  // missed.
  constexpr int kModes[] = {O_WRONLY, O_RDONLY, O_WRONLY};
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (syscall(SYS_fcntl, fd, F_GETFD) >= 0) continue;
    // It gets the lowest number that is free, which is this one.
    (void)syscall(SYS_openat, AT_FDCWD, "/dev/null", kModes[fd]);
  }
}

using Initializer = void (*)(int, char**, char**);
__attribute__((section(".preinit_array"), used)) Initializer open_closed_streams =
    &OpenClosedStreams;

}  // namespace
