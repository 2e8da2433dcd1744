#include "producer/progress_display.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kBarEvery(200);
constexpr milliseconds kLineEvery = seconds(5);

size_t TerminalColumns() {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 2) return 80;
  return size.ws_col;
}

}  // namespace

ProgressDisplay::ProgressDisplay(bool quiet)
    : quiet_(quiet), terminal_(isatty(STDERR_FILENO) == 1) {}

void ProgressDisplay::Show(Time now, const ProducerProgress& progress, bool skipping) {
  if (quiet_) return;
  if (skipping || now >= next_sample_) {
    rates_.Add(now, progress, skipping);
    next_sample_ = now + kBarEvery;
  }
  if (next_ == Time()) {  // the first line comes when there is something to tell
    next_ = now + (terminal_ ? kBarEvery : kLineEvery);
    return;
  }
  if (now < next_) return;
  if (terminal_) {
    next_ = now + kBarEvery;
    // The last column stays free: a terminal may wrap the line there.
    std::fprintf(stderr, "\r\033[K%s",
                 ProgressBar(progress, rates_, TerminalColumns() - 1).c_str());
    bar_shown_ = true;
  } else {
    next_ = now + kLineEvery;
    std::fprintf(stderr, "%s\n", ProgressLine(progress, rates_).c_str());
  }
}

void ProgressDisplay::ClearBar() {
  if (bar_shown_) std::fputs("\r\033[K", stderr);
  bar_shown_ = false;
}

void ProgressDisplay::Say(const std::string& line) {
  if (!quiet_) Warn(line);
}

void ProgressDisplay::Warn(const std::string& line) {
  ClearBar();
  std::fprintf(stderr, "%s\n", line.c_str());
}

}  // namespace millrace
