#include "processors/snapshot_cut.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace millrace {

SnapshotCut::SnapshotCut(uint32_t workers, size_t pipeline) : pipeline_(pipeline) {
  for (WorkerId worker = 0; worker < workers; ++worker) cuts_[worker];
}

bool SnapshotCut::Begin(uint64_t snapshot, const VectorClock& clocks) {
  if (snapshot <= newest() || open_ || clocks.AllLeft() || !AllArePastTheLast(clocks)) return false;
  snapshot_ = snapshot;
  open_ = true;
  // The updates from the present clock on may be under way, as many as may be in flight, and know
  // nothing of this; the one after them is made from an answer that says it. So one update after
  // that one, every shard has heard it.
  for (auto& [worker, cut] : cuts_) cut = clocks.clock(worker) + pipeline_ + 1;
  return true;
}

// So that every shard has heard of the last one, and has come to it: no shard is more updates
// behind than may be in flight.
bool SnapshotCut::AllArePastTheLast(const VectorClock& clocks) const {
  return std::ranges::all_of(cuts_, [&](const auto& entry) {
    const auto& [worker, cut] = entry;
    return clocks.left(worker) || !cut || clocks.clock(worker) >= *cut + pipeline_;
  });
}

bool SnapshotCut::CutHere(uint64_t snapshot) {
  if (snapshot <= newest() && !(open_ && snapshot == snapshot_)) return false;
  snapshot_ = snapshot;
  open_ = false;
  reached_ = true;
  for (auto& [worker, cut] : cuts_) cut.reset();
  return true;
}

void SnapshotCut::Cancel(uint64_t snapshot) {
  if (snapshot < newest()) return;
  cancelled_ = snapshot;
  if (std::exchange(open_, false)) reached_ = true;
}

void SnapshotCut::Note(WorkerId worker, const SnapshotMark& mark) {
  if (mark.snapshot() > newest()) {
    snapshot_ = mark.snapshot();
    open_ = true;
    for (auto& [id, cut] : cuts_) cut.reset();
  }
  if (open_ && mark.snapshot() == snapshot_) cuts_.at(worker) = Clock(mark.cut());
}

bool SnapshotCut::HasReached(WorkerId worker, Clock clock) const {
  const std::optional<Clock>& cut = cuts_.at(worker);
  return open_ && cut && clock >= *cut;
}

std::optional<uint64_t> SnapshotCut::Reach(const VectorClock& clocks) {
  if (!open_) return std::nullopt;
  const bool all = std::ranges::all_of(cuts_, [&](const auto& entry) {
    return clocks.left(entry.first) || HasReached(entry.first, clocks.clock(entry.first));
  });
  if (!all) return std::nullopt;
  open_ = false;
  reached_ = true;
  return snapshot_;
}

std::optional<SnapshotMark> SnapshotCut::Mark(WorkerId worker) const {
  const std::optional<Clock>& cut = cuts_.at(worker);
  if (snapshot_ == 0 || !cut) return std::nullopt;
  SnapshotMark mark;
  mark.set_snapshot(snapshot_);
  mark.set_cut(*cut);
  return mark;
}

void SnapshotCut::Save(ShardState& state) const {
  state.set_snapshot(snapshot_);
  state.set_snapshot_cancelled(cancelled_);
  state.set_snapshot_open(open_);
  state.set_at_cut(reached_);
  MILLRACE_CHECK(static_cast<size_t>(state.members_size()) == cuts_.size());
  for (ShardState::Member& member : *state.mutable_members()) {
    const std::optional<Clock>& cut = cuts_.at(WorkerId(member.worker()));
    member.set_has_cut(cut.has_value());
    member.set_cut(cut.value_or(0));
  }
}

void SnapshotCut::Load(const ShardState& state) {
  snapshot_ = state.snapshot();
  cancelled_ = state.snapshot_cancelled();
  open_ = state.snapshot_open();
  reached_ = state.at_cut();
  for (const ShardState::Member& member : state.members()) {
    std::optional<Clock>& cut = cuts_.at(WorkerId(member.worker()));
    cut.reset();
    if (member.has_cut()) cut = Clock(member.cut());
  }
}

}  // namespace millrace
