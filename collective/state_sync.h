// Whoever comes into a world gets its state from the member that has come furthest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "collective/world.h"

namespace millrace {

// All members call it, with states of the same size; `clock` says how far a state has come, and
// states of the same clock are the same. Afterwards all have the clock and the state of the
// furthest (members of a world that has failed are one clock apart at most; one that has just come
// has clock 0, say). Unavailable: a member has died, and the world is of no use any more; then
// clock and state are as they were.
Status TakeFurthest(World& world, uint64_t& clock, std::span<std::byte> state);

}  // namespace millrace
