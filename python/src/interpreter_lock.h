// The interpreter's lock, given up and taken back by scopes, also by threads that outlive the
// interpreter.
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

namespace millrace {

// Takes the lock by `take`. Before 3.14 an interpreter that ends ends other threads there by
// pthread_exit, which unwinds their stack, and would abort the process at the first destructor or
// noexcept function. Such a thread stays here instead until the process is gone, as 3.14 has it.
template <typename Take>
auto TakeOrStay(const Take& take) {
  try {
    return take();
  } catch (abi::__forced_unwind&) {
    while (true) pause();
  }
}

// The lock is given up for the scope of this. REQUIRES the lock.
class WithoutInterpreter {
 public:
  WithoutInterpreter() : state_(PyEval_SaveThread()) {}
  ~WithoutInterpreter() {
    TakeOrStay([this] { PyEval_RestoreThread(state_); });
  }
  WithoutInterpreter(const WithoutInterpreter&) = delete;
  WithoutInterpreter& operator=(const WithoutInterpreter&) = delete;

 private:
  PyThreadState* const state_;
};

// The lock is held for the scope of this.
class WithInterpreter {
 public:
  WithInterpreter() : state_(TakeOrStay([] { return PyGILState_Ensure(); })) {}
  ~WithInterpreter() { PyGILState_Release(state_); }
  WithInterpreter(const WithInterpreter&) = delete;
  WithInterpreter& operator=(const WithInterpreter&) = delete;

 private:
  const PyGILState_STATE state_;
};

}  // namespace millrace
