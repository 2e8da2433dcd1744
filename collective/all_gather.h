// Bytes of any number from each member to all, and from the member that has come furthest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "collective/world.h"

namespace millrace {

// More than this nobody sends: a larger number was damaged, or comes from a stranger.
inline constexpr uint64_t kMostExchangedBytes = uint64_t{1} << 34;

// A number of each member, by position; all members call it. `tag`: of World::NextTag. Errors are
// AllGather's.
StatusOr<std::vector<uint64_t>> GatherNumbers(World& world, uint64_t tag, uint64_t own);

// What each member says, by position. All members call it. Unavailable: a member has died or was
// too slow, and the world is of no use any more; others may have got everything.
StatusOr<std::vector<std::string>> AllGather(World& world, std::string_view own);

// As TakeFurthest, of states whose size differs: returns the state of the furthest if this member
// is behind it, else nothing. `encode` makes this member's state, if somebody needs it. Errors:
// Unavailable, as above; those of `encode`, after which the world is of no use either.
using EncodeOwnState = std::function<StatusOr<std::string>()>;
StatusOr<std::optional<std::string>> FurthestState(World& world, uint64_t clock,
                                                   const EncodeOwnState& encode);

}  // namespace millrace
