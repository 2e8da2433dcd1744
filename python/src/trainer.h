// A trainer of a program in Python: the library of client/, whose waits Ctrl-C ends.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "millrace/parameter_manager.h"
#include "python/src/of_one_process.h"

namespace millrace {

// Needs no lock of the interpreter, but where `stopped` takes it. Thread-safe: one call at a time.
// In a process that is forked every call is kFailedPrecondition.
class Trainer {
 public:
  // `stopped` is asked several times a second by calls that wait, of the thread that calls. True
  // ends the call (kCancelled).
  static client::Result<std::unique_ptr<Trainer>> Open(client::Settings settings,
                                                       std::function<bool()> stopped);

  // Returns what `call` does with the manager, a Status or a Result. What other threads' calls may
  // change is to be read by `call`, too.
  template <typename Call>
  std::invoke_result_t<const Call&, client::ParameterManager&> Do(const Call& call) {
    std::unique_lock<std::timed_mutex> turn(mutex_, std::defer_lock);
    if (client::Status waited = WaitForTurn(turn); !waited.ok()) return waited;
    stop_ = false;
    return call(*manager_);
  }

 private:
  explicit Trainer(std::function<bool()> stopped) : stopped_(std::move(stopped)) {}
  client::Status WaitForTurn(std::unique_lock<std::timed_mutex>& turn);

  const std::function<bool()> stopped_;
  std::timed_mutex mutex_;
  std::atomic<bool> stop_ = false;
  OfOneProcess<client::ParameterManager> manager_;
};

// The library's lines since this was called last, the first hundreds of them. None before a trainer
// was opened. Thread-safe.
std::vector<std::string> TakeLines();

}  // namespace millrace
