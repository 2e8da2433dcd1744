// What lives with threads of its own, which a process that is forked has not.
#pragma once

#include <unistd.h>

#include <memory>
#include <string>

namespace millrace {

// Deletes in the process that made it, and leaves it in a forked one as it is: there nobody ends
// the threads that it would wait for.
class InItsProcess {
 public:
  bool IsThisOne() const { return getpid() == process_; }
  // Why a call of another process is refused. `what`: "this ParameterManager", say.
  std::string Refusal(const std::string& what) const {
    return what + " belongs to the process " + std::to_string(process_) +
           ": open one in this process";
  }

  template <typename T>
  void operator()(T* made) const {
    if (IsThisOne()) delete made;
  }

 private:
  pid_t process_ = getpid();
};

template <typename T>
using OfOneProcess = std::unique_ptr<T, InItsProcess>;

}  // namespace millrace
