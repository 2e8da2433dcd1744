#include "collective/all_gather.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/hash.h"
#include "collective/mesh.h"

namespace millrace {
namespace {

std::span<std::byte> BytesOf(uint64_t& number) {
  return std::as_writable_bytes(std::span(&number, 1));
}

std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

Status CheckMessageSize(uint32_t member, uint64_t size) {
  if (size <= kMostExchangedBytes) return absl::OkStatus();
  return absl::UnavailableError("member " + std::to_string(member) + " says that it sends " +
                                std::to_string(size) + " bytes: it is no member, or damaged");
}

}  // namespace

StatusOr<std::vector<uint64_t>> GatherNumbers(World& world, uint64_t tag, uint64_t own) {
  const uint32_t self = world.position();
  std::vector<uint64_t> numbers(world.size(), own);
  Transfers told(world.mesh());
  for (uint32_t member = 0; member < world.size(); ++member) {
    if (member == self) continue;
    told.Receive(member, tag, BytesOf(numbers[member]));
    told.Send(member, tag, BytesOf(numbers[self]));
  }
  MILLRACE_RETURN_IF_ERROR(told.WaitReceived());
  MILLRACE_RETURN_IF_ERROR(told.WaitSent());
  return numbers;
}

StatusOr<std::vector<std::string>> AllGather(World& world, std::string_view own) {
  const uint32_t self = world.position();
  const uint64_t tag = world.NextTag(0);
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<uint64_t> sizes,
                            GatherNumbers(world, tag, own.size()));
  std::vector<std::string> all(world.size());
  all[self] = own;
  Transfers sent(world.mesh());
  for (uint32_t member = 0; member < world.size(); ++member) {
    if (member == self) continue;
    if (Status bad = CheckMessageSize(member, sizes[member]); !bad.ok()) {
      world.mesh().Break(bad);
      return bad;
    }
    all[member].resize(sizes[member]);
    sent.Receive(member, Mix64(tag), std::as_writable_bytes(std::span(all[member])));
    sent.Send(member, Mix64(tag), BytesOf(own));
  }
  MILLRACE_RETURN_IF_ERROR(sent.WaitReceived());
  MILLRACE_RETURN_IF_ERROR(sent.WaitSent());
  return all;
}

StatusOr<std::optional<std::string>> FurthestState(World& world, uint64_t clock,
                                                   const EncodeOwnState& encode) {
  const uint32_t self = world.position();
  const uint64_t tag = world.NextTag(1);
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<uint64_t> clocks, GatherNumbers(world, tag, clock));
  const auto furthest = std::ranges::max_element(clocks);
  const auto source = static_cast<uint32_t>(furthest - clocks.begin());
  if (self != source && clock == *furthest) return std::optional<std::string>();
  const auto is_behind = [&](uint64_t other) { return other < *furthest; };
  std::string state;
  uint64_t size = 0;
  Transfers sizes(world.mesh());
  Transfers states(world.mesh());
  if (self == source) {
    if (std::ranges::none_of(clocks, is_behind)) return std::optional<std::string>();
    StatusOr<std::string> encoded = encode();
    if (!encoded.ok()) {
      world.mesh().Break(absl::UnavailableError("its state cannot be sent"));
      return encoded.status();
    }
    state = *std::move(encoded);
    size = state.size();
    for (uint32_t member = 0; member < world.size(); ++member) {
      if (!is_behind(clocks[member])) continue;
      sizes.Send(member, Mix64(tag), BytesOf(size));
      states.Send(member, Mix64(tag + 1), BytesOf(state));
    }
    MILLRACE_RETURN_IF_ERROR(sizes.WaitSent());
    MILLRACE_RETURN_IF_ERROR(states.WaitSent());
    return std::optional<std::string>();
  }
  sizes.Receive(source, Mix64(tag), BytesOf(size));
  MILLRACE_RETURN_IF_ERROR(sizes.WaitReceived());
  if (Status bad = CheckMessageSize(source, size); !bad.ok()) {
    world.mesh().Break(bad);
    return bad;
  }
  state.resize(size);
  states.Receive(source, Mix64(tag + 1), std::as_writable_bytes(std::span(state)));
  MILLRACE_RETURN_IF_ERROR(states.WaitReceived());
  return std::optional<std::string>(std::move(state));
}

}  // namespace millrace
