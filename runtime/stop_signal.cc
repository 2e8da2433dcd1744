#include "runtime/stop_signal.h"

#include <csignal>
#include <cstdlib>

namespace millrace {
namespace {

std::atomic<bool> stop_requested = false;
static_assert(std::atomic<bool>::is_always_lock_free);

void OnSignal(int) {
  if (stop_requested.exchange(true)) std::_Exit(130);
}

}  // namespace

const std::atomic<bool>& StopOnSignals() {
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return stop_requested;
}

}  // namespace millrace
