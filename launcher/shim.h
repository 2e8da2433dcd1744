// What stands between a launcher and a process: it outlives the launcher, and so can tell the next
// one how the process ended.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "launcher/descriptor.h"

namespace millrace {

struct ShimOptions {
  std::string folder;                 // of the incarnation
  std::chrono::milliseconds grace{};  // between SIGTERM and SIGKILL
  // The program, a path or a name in PATH, and its arguments. REQUIRES: a program.
  std::vector<std::string> command;
  Descriptor began{};  // closed when the command runs, or will not
  std::string root{};  // where /proc and /sys are (CountOomKills); a test's
};

// Runs the command, unless that was done before, and returns when neither it nor anything that it
// has started runs any more, and the folder says how it ended. The command gets standard input,
// output and error of this process and no other open file, no blocked or ignored signal, and a
// process group of its own. It does not outlive this process, if this one is killed; what it has
// started may.
//
// SIGTERM, SIGINT and SIGHUP are passed to that group, once, as SIGTERM; what runs after the grace
// time is killed. What the command leaves behind when it ends is asked to end in the same way.
//
// `say` is given each line for the log. REQUIRES: one thread, no other children, and nothing else
// that this process handles signals for. Errors: the folder cannot be read or written, no process
// can be made; then nothing runs.
Status RunShim(ShimOptions options, const std::function<void(const std::string&)>& say);

// How the program is called.
inline constexpr int kShimBegan = 3;  // the descriptor `began`, if it is open

}  // namespace millrace
