// What changes of the number of workers do to a shard.
#include <algorithm>

#include "tests/simulation/referee.h"

namespace millrace::simulation {

// To shard 0: the newest order counts.
void Referee::Order(State& state, const Gradient::Resize& order) const {
  if (job_.shard != 0 || job_.first_workers == job_.workers) return;
  if (order.number() <= state.ordered) return;
  state.ordered = order.number();
  state.ordered_size = order.workers();
}

// No snapshot is under way, nor may a shard still come to the last one's cut.
bool Referee::NoCutIsOpen(const State& state) const {
  if (state.snapshot_open || state.next_shards > 0) return false;
  return std::ranges::all_of(state.members, [&](const Member& member) {
    return member.left || !member.cut || member.clock >= *member.cut + Pipeline();
  });
}

// All shards know the workers that shard 0 has let in.
bool Referee::AllAreKnown(const State& state) const {
  if (state.told != state.resize) return false;
  return std::ranges::all_of(state.members, [&](const Member& member) {
    return member.left || member.joined == 0 || member.clock >= member.joined + Pipeline();
  });
}

bool Referee::AnyoneIsThere(const State& state) {
  return std::ranges::any_of(state.members, [](const Member& member) { return !member.left; });
}

// Not in a sequential job: shard 0 does it as soon as it may.
void Referee::ResizeAtOnce(State& state) const {
  if (Bound() == 0 || state.lost || state.ordered == state.resize) return;
  if (!NoCutIsOpen(state) || !AnyoneIsThere(state)) return;
  state.told = state.ordered;
  state.told_size = state.ordered_size;
  LetIn(state, state.ordered, state.ordered_size);
}

// At the end of a round of a sequential job: what its updates have told of comes to pass; then
// shard 0 tells of the next change, with its answers from now on.
void Referee::ResizeByRound(State& state, uint64_t number, uint32_t size) const {
  if (number > state.resize) LetIn(state, number, size);
  if (state.ordered > state.resize && state.told == state.resize && NoCutIsOpen(state)) {
    state.told = state.ordered;
    state.told_size = state.ordered_size;
  }
}

void Referee::LetIn(State& state, uint64_t number, uint32_t size) const {
  uint64_t slowest = UINT64_MAX;
  for (const Member& member : state.members) {
    if (!member.left) slowest = std::min(slowest, member.clock);
  }
  for (uint32_t worker = state.size; worker < size; ++worker) {
    const Member& member = state.members[worker];
    if (!member.left || (Bound() == 0 && member.clock >= slowest)) continue;
    Join(state, worker, std::max(slowest, member.clock + 1));
  }
  state.resize = number;
  state.size = size;
}

void Referee::Join(State& state, uint32_t worker, uint64_t clock) {
  Member& member = state.members[worker];
  member.left = false;
  member.clock = clock;
  member.joined = clock;
  member.held.clear();
  member.wanted.clear();
  member.cut = std::nullopt;
  state.answered.insert(worker);
}

// Other shards of a job that is not sequential hear it from the worker, or from who leaves.
void Referee::HearOfJoin(State& state, uint32_t worker, uint64_t clock) const {
  if (job_.shard == 0 || Bound() == 0 || job_.first_workers == job_.workers || state.lost) return;
  const Member& member = state.members[worker];
  if (clock > member.joined && clock > member.clock) Join(state, worker, clock);
}

}  // namespace millrace::simulation
