// Whether the kernel has killed processes because memory was short.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace millrace {

// How many processes the kernel has killed for want of memory, in the control group of this process
// (of version 2 or 1), or else on this machine. Only goes up. Empty: no file says so. `root`: where
// /proc and /sys are, for tests.
std::optional<uint64_t> CountOomKills(const std::string& root = "");

}  // namespace millrace
