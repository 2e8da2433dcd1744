// The end of a process whose main thread hangs.
#pragma once

namespace millrace {

// Ends the process with exit code 1 after a line of the log, so that MasterApp starts it again. For
// the thread of a StallWatch, whose limit `seconds` is.
[[noreturn]] void EndStalledProcess(double seconds);

}  // namespace millrace
