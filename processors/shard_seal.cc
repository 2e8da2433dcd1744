#include "processors/shard_seal.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "topics/gradient_codec.h"
#include "topics/topics.h"

namespace millrace {

bool ShardSeal::Begin(uint32_t next_shards, const VectorClock& clocks) {
  MILLRACE_CHECK(next_shards > 0);
  if (has_begun() || clocks.AllLeft()) return false;
  next_shards_ = next_shards;
  // As far ahead as SnapshotCut::Begin does, for the same reason.
  for (const auto& [worker, entry] : clocks.entries()) cuts_[worker] = entry.clock + pipeline_ + 1;
  return true;
}

void ShardSeal::Note(WorkerId worker, const SnapshotMark& mark) {
  if (sealed_ || mark.next_shards() == 0) return;
  if (has_begun() && mark.next_shards() != next_shards_) return;
  next_shards_ = mark.next_shards();
  cuts_[worker] = Clock(mark.cut());
}

bool ShardSeal::HasReached(WorkerId worker, Clock clock) const {
  const auto cut = cuts_.find(worker);
  return cut != cuts_.end() && clock >= cut->second;
}

bool ShardSeal::Reach(const VectorClock& clocks) {
  if (!has_begun() || sealed_ || clocks.AllLeft()) return false;
  sealed_ = std::ranges::all_of(clocks.entries(), [&](const auto& member) {
    const auto& [worker, entry] = member;
    return entry.left || HasReached(worker, entry.clock);
  });
  return sealed_;
}

std::optional<SnapshotMark> ShardSeal::Mark(WorkerId worker) const {
  const auto cut = cuts_.find(worker);
  if (cut == cuts_.end()) return std::nullopt;
  SnapshotMark mark;
  mark.set_next_shards(next_shards_);
  mark.set_cut(cut->second);
  return mark;
}

void ShardSeal::Save(ShardState& state) const {
  if (!has_begun()) return;
  ShardState::Seal& seal = *state.mutable_seal();
  seal.set_next_shards(next_shards_);
  seal.set_sealed(sealed_);
  for (const auto& [worker, clock] : cuts_) {
    ShardState::Seal::Cut& cut = *seal.add_cut();
    cut.set_worker(worker);
    cut.set_clock(clock);
  }
}

Status ShardSeal::Load(const ShardState& state, uint32_t workers) {
  cuts_.clear();
  next_shards_ = state.seal().next_shards();
  sealed_ = state.seal().sealed();
  if (next_shards_ > kMostShards || (next_shards_ == 0 && state.has_seal())) {
    return absl::InvalidArgumentError("its job goes over to " + std::to_string(next_shards_) +
                                      " shards");
  }
  for (const ShardState::Seal::Cut& cut : state.seal().cut()) {
    if (cut.worker() >= workers || cut.clock() > kMostClock + 2 * pipeline_ + 1) {
      return absl::InvalidArgumentError("the last cut of worker " + std::to_string(cut.worker()) +
                                        " is at clock " + std::to_string(cut.clock()));
    }
    cuts_[WorkerId(cut.worker())] = Clock(cut.clock());
  }
  return absl::OkStatus();
}

}  // namespace millrace
