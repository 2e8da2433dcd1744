#include "collective/state_sync.h"

#include <algorithm>
#include <vector>

#include "base/hash.h"
#include "collective/all_gather.h"
#include "collective/mesh.h"

namespace millrace {

Status TakeFurthest(World& world, uint64_t& clock, std::span<std::byte> state) {
  const uint32_t self = world.position();
  const uint64_t tag = world.NextTag(state.size());
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<uint64_t> clocks, GatherNumbers(world, tag, clock));
  const auto furthest = std::ranges::max_element(clocks);
  const auto source = static_cast<uint32_t>(furthest - clocks.begin());
  Transfers states(world.mesh());
  if (self == source) {
    for (uint32_t member = 0; member < world.size(); ++member) {
      if (clocks[member] < clock) states.Send(member, Mix64(tag), state);
    }
    return states.WaitSent();
  }
  if (clock == *furthest) return absl::OkStatus();
  std::vector<std::byte> newest(state.size());
  states.Receive(source, Mix64(tag), newest);
  MILLRACE_RETURN_IF_ERROR(states.WaitReceived());
  std::ranges::copy(newest, state.begin());
  clock = *furthest;
  return absl::OkStatus();
}

}  // namespace millrace
