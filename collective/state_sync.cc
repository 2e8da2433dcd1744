#include "collective/state_sync.h"

#include <algorithm>
#include <vector>

#include "base/hash.h"
#include "collective/mesh.h"

namespace millrace {

Status TakeFurthest(World& world, uint64_t& clock, std::span<std::byte> state) {
  const uint32_t self = world.position();
  const uint64_t tag = world.NextTag(state.size());
  std::vector<uint64_t> clocks(world.size(), clock);
  Transfers told(world.mesh());
  for (uint32_t member = 0; member < world.size(); ++member) {
    if (member == self) continue;
    told.Receive(member, tag, std::as_writable_bytes(std::span(&clocks[member], 1)));
    told.Send(member, tag, std::as_bytes(std::span(&clocks[self], 1)));
  }
  MILLRACE_RETURN_IF_ERROR(told.WaitReceived());
  MILLRACE_RETURN_IF_ERROR(told.WaitSent());

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
