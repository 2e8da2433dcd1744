// Ctrl-C and SIGTERM as a flag that run loops look at.
#pragma once

#include <atomic>

namespace millrace {

// Installs handlers for SIGINT and SIGTERM; a second signal ends the process at once (exit code
// 130). Returns the flag they set. For main() only.
const std::atomic<bool>& StopOnSignals();
// That flag; never set without StopOnSignals.
const std::atomic<bool>& StopRequested();

// From now on SIGUSR1 asks for a snapshot.
void RequestSnapshotsOnSignal();
// Whether one was asked for since the last call.
bool TakeSnapshotRequest();

}  // namespace millrace
