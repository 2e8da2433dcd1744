#include "worker/stalled_process.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <cstdlib>
#include <thread>

namespace millrace {

// Nothing else ends it: its main thread hangs, so it hears of no signal and of no plan. If it hangs
// in a line of its log, no other line is written either.
void EndStalledProcess(double seconds) {
  std::thread([seconds] {
    spdlog::critical(
        "the main thread has made no progress for {:.0f} s (--stall-timeout): this process ends "
        "itself, so that other processes get its logical workers; MasterApp starts it again",
        seconds);
  }).detach();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  std::_Exit(EXIT_FAILURE);
}

}  // namespace millrace
