// The wall clock. Pure folders must not read it: time is handed to them.
#pragma once

#include <cstdint>

namespace millrace {

// Milliseconds since 1970-01-01 00:00 UTC, by this machine's clock, which may jump.
int64_t NowMs();

}  // namespace millrace
