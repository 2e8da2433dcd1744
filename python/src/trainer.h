// A trainer of a program in Python: the library of client/, whose waits Ctrl-C ends.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "millrace/parameter_manager.h"

namespace millrace {

// Needs no lock of the interpreter, but where `stopped` takes it. Thread-safe: one call at a time.
class Trainer {
 public:
  // `stopped` is asked several times a second by calls that wait, of the thread that calls. True
  // ends the call (kCancelled).
  static client::Result<std::unique_ptr<Trainer>> Open(client::Settings settings,
                                                       std::function<bool()> stopped);

  // Returns what `call` does with the manager.
  template <typename Call>
  auto Do(const Call& call) {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = false;
    return call(*manager_);
  }

 private:
  Trainer() = default;

  std::mutex mutex_;
  std::atomic<bool> stop_ = false;
  std::unique_ptr<client::ParameterManager> manager_;
};

// The library's lines since this was called last, the first hundreds of them. None before a trainer
// was opened. Thread-safe.
std::vector<std::string> TakeLines();

}  // namespace millrace
