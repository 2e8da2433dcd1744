#include "job/stop_signal.h"

#include <csignal>
#include <cstdlib>

namespace millrace {
namespace {

std::atomic<bool> stop_requested = false;
std::atomic<bool> snapshot_requested = false;
static_assert(std::atomic<bool>::is_always_lock_free);

void OnSignal(int) {
  if (stop_requested.exchange(true)) std::_Exit(130);
}

void OnSnapshotSignal(int) { snapshot_requested = true; }

}  // namespace

const std::atomic<bool>& StopRequested() { return stop_requested; }

const std::atomic<bool>& StopOnSignals() {
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return stop_requested;
}

void RequestSnapshotsOnSignal() {
  struct sigaction action = {};
  action.sa_handler = OnSnapshotSignal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
}

bool TakeSnapshotRequest() { return snapshot_requested.exchange(false); }

}  // namespace millrace
