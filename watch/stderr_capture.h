// Keeps libraries' output on stderr from disturbing a terminal that is drawn on.
#pragma once

#include <string>
#include <vector>

namespace millrace {

// While it lives, stderr goes to a pipe, whose lines TakeLines returns; its destructor writes the
// remaining lines to stderr. Does nothing when stderr is not a terminal.
class StderrCapture {
 public:
  StderrCapture();
  ~StderrCapture();
  StderrCapture(const StderrCapture&) = delete;
  StderrCapture& operator=(const StderrCapture&) = delete;

  std::vector<std::string> TakeLines();

 private:
  void ReadPipe();

  int stderr_ = -1;  // the original one; -1: not captured
  int pipe_ = -1;    // the reading end
  std::string text_;
};

}  // namespace millrace
