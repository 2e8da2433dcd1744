// While a terminal is drawn on, what libraries say on stderr would tear the picture.
#pragma once

#include <string>
#include <vector>

namespace millrace {

// From its making to its end, stderr goes to a pipe, whose lines TakeLines returns; what was not
// taken goes to stderr in the end. Does nothing when stderr is no terminal.
class StderrCapture {
 public:
  StderrCapture();
  ~StderrCapture();
  StderrCapture(const StderrCapture&) = delete;
  StderrCapture& operator=(const StderrCapture&) = delete;

  std::vector<std::string> TakeLines();

 private:
  void ReadPipe();

  int stderr_ = -1;  // the true one; -1: not captured
  int pipe_ = -1;    // the reading end
  std::string text_;
};

}  // namespace millrace
