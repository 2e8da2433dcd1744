// What requests and marks of snapshots in `gradients` do to a shard.
#include <algorithm>
#include <utility>

#include "tests/simulation/referee.h"

namespace millrace::simulation {

const Referee::State* Referee::AtCut(int64_t position) const {
  const auto found = cuts_.find(position);
  return found == cuts_.end() ? nullptr : &found->second;
}

bool Referee::Request(State& state, const Gradient& message) {
  if (message.has_cancel_snapshot()) {
    const uint64_t id = message.cancel_snapshot().snapshot();
    if (id < std::max(state.snapshot, state.snapshot_cancelled)) return true;
    state.snapshot_cancelled = id;
    if (state.snapshot_open) {
      state.snapshot_open = false;
      LeaveCut(state);
    }
    return true;
  }
  if (message.has_cut_here()) {
    const uint64_t id = message.cut_here().snapshot();
    const bool is_newer = id > std::max(state.snapshot, state.snapshot_cancelled);
    if (!is_newer && !(state.snapshot_open && id == state.snapshot)) return true;
    state.snapshot = id;
    state.snapshot_open = false;
    for (Member& member : state.members) member.cut = std::nullopt;
    cuts_[end() + 1] = state;
    LeaveCut(state);
    return true;
  }
  if (!message.has_request_snapshot()) return false;
  const uint64_t number = message.request_snapshot().number();
  if (job_.shard != 0 || number == state.request || !MayBegin(state)) return true;
  state.request = number;
  Begin(state, number);
  for (uint32_t worker = 0; worker < job_.workers; ++worker) {
    if (!state.members[worker].left) state.answered.insert(worker);
  }
  return true;
}

bool Referee::MayBegin(const State& state) const {
  return NoCutIsOpen(state) && AnyoneIsThere(state) && AllAreKnown(state) && state.next_shards == 0;
}

void Referee::Begin(State& state, uint64_t id) const {
  state.snapshot = std::max({id, state.snapshot + 1, state.snapshot_cancelled + 1});
  state.snapshot_open = true;
  for (Member& member : state.members) member.cut = member.clock + Pipeline() + 1;
}

// At the first record by which so many steps are over, and a snapshot may begin.
void Referee::BeginPeriodic(State& state) const {
  const uint64_t every = job_.training.snapshot_every();
  if (job_.shard != 0 || every == 0 || state.lost || state.steps < state.periodic_at + every) {
    return;
  }
  if (!MayBegin(state)) return;
  state.periodic_at = state.steps;
  Begin(state, static_cast<uint64_t>(state.seen_ms));
}

// Shard 0 has fixed the cuts, and hears of nothing new.
void Referee::NoteCut(State& state, uint32_t worker, const SnapshotMark& mark) const {
  if (job_.shard == 0) return;
  if (mark.next_shards() > 0) {
    if (state.next_shards > 0 && mark.next_shards() != state.next_shards) return;
    state.next_shards = mark.next_shards();
    state.members[worker].last_cut = mark.cut();
    return;
  }
  if (mark.snapshot() > std::max(state.snapshot, state.snapshot_cancelled)) {
    state.snapshot = mark.snapshot();
    state.snapshot_open = true;
    for (Member& member : state.members) member.cut = std::nullopt;
  }
  const bool of_this = state.snapshot_open && mark.snapshot() == state.snapshot;
  if (of_this) state.members[worker].cut = mark.cut();
}

bool Referee::IsHeldAtCut(const State& state, const Member& member) const {
  return state.snapshot_open && member.cut && *member.cut <= member.clock;
}

void Referee::ComeToCut(State& state) {
  const bool all_have_come =
      state.snapshot_open && std::ranges::all_of(state.members, [&](const Member& member) {
        return member.left || IsHeldAtCut(state, member);
      });
  if (all_have_come) {
    state.snapshot_open = false;
    // The last cut may be there, too: what is behind it is in no snapshot.
    State& cut = cuts_[end() + 1] = state;
    ComeToLastCut(cut);
    LeaveCut(state);
  }
  ComeToLastCut(state);
}

void Referee::LeaveCut(State& state) {
  if (Bound() == 0) return;  // a round is held until its end, cut or not
  for (uint32_t worker = 0; worker < job_.workers; ++worker) {
    std::deque<std::shared_ptr<const Gradient::Update>>& held = state.members[worker].held;
    while (!held.empty() && !IsAtLastCut(state.members[worker])) {
      const std::shared_ptr<const Gradient::Update> update = held.front();
      held.pop_front();
      TakeNow(state, worker, *update);
    }
  }
  ComeToLastCut(state);
}

// To shard 0: where all shards are to stop, and other shards to go on.
void Referee::OrderShards(State& state, const Gradient::Reshard& order) const {
  const bool is_meant = job_.shard == 0 && order.layout() == 0 && order.shards() != job_.shards;
  if (!is_meant || state.lost || state.next_shards > 0 || !AnyoneIsThere(state)) return;
  if (!NoCutIsOpen(state) || !AllAreKnown(state) || state.ordered != state.resize) return;
  state.next_shards = order.shards();
  for (uint32_t worker = 0; worker < job_.workers; ++worker) {
    Member& member = state.members[worker];
    member.last_cut = member.clock + Pipeline() + 1;
    if (!member.left) state.answered.insert(worker);
  }
}

bool Referee::IsAtLastCut(const Member& member) {
  return member.last_cut && member.clock >= *member.last_cut;
}

void Referee::ComeToLastCut(State& state) {
  if (state.next_shards == 0 || !AnyoneIsThere(state)) return;
  for (const Member& member : state.members) {
    if (!member.left && !IsAtLastCut(member)) return;
  }
  state.sealed = true;
  for (Member& member : state.members) member.held.clear();
}

void Referee::TakeWhileSealed(State& state, const Gradient& message) {
  if (message.has_ask()) return TakeAsk(state, message);
  const bool is_due = !message.has_restore() && IsDue(state.members[message.worker()], message);
  if (!is_due) Reply(state, message);
}

}  // namespace millrace::simulation
