// Keeps a log that nobody reads from keeping a program from its end.
#pragma once

namespace millrace {

// Where standard error is a pipe, what the program prints there (`stderr`) waits for the reader
// from now on as InterruptibleOutput does: as long as it takes, but once the program is to stop
// (StopOnSignals) for a second only. For main(), before other threads are started; not for
// std::cerr.
void StopWaitingForTheLogsReader();

}  // namespace millrace
