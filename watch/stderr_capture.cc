#include "watch/stderr_capture.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

namespace millrace {

StderrCapture::StderrCapture() {
  if (isatty(STDERR_FILENO) == 0) return;
  int ends[2];
  // Nobody may hang on a full pipe: what does not fit is lost.
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return;
  std::fflush(stderr);
  stderr_ = dup(STDERR_FILENO);
  pipe_ = ends[0];
  dup2(ends[1], STDERR_FILENO);
  close(ends[1]);
}

StderrCapture::~StderrCapture() {
  if (stderr_ < 0) return;
  std::fflush(stderr);
  ReadPipe();
  dup2(stderr_, STDERR_FILENO);
  close(stderr_);
  close(pipe_);
  if (!text_.empty()) std::fwrite(text_.data(), 1, text_.size(), stderr);
}

void StderrCapture::ReadPipe() {
  char buffer[4096];
  for (ssize_t read_now = 0; (read_now = read(pipe_, buffer, sizeof(buffer))) > 0;) {
    text_.append(buffer, static_cast<size_t>(read_now));
  }
}

std::vector<std::string> StderrCapture::TakeLines() {
  std::vector<std::string> lines;
  if (stderr_ < 0) return lines;
  ReadPipe();
  for (size_t end = 0; (end = text_.find('\n')) != std::string::npos;) {
    lines.push_back(text_.substr(0, end));
    text_.erase(0, end + 1);
  }
  return lines;
}

}  // namespace millrace
