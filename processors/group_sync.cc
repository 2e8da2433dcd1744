#include "processors/group_sync.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/check.h"
#include "processors/shard_model.h"
#include "topics/gradient_codec.h"

namespace millrace {
namespace {

Status BadSync(const std::string& what) { return absl::InvalidArgumentError(what); }

// By 64 bits, so that what has not changed here becomes what stands there.
float Moved(float value, float to, float from) {
  return static_cast<float>(double{value} + (double{to} - double{from}));
}

}  // namespace

GroupSync::GroupSync(const ServerOptions& options)
    : group_(options.group),
      is_grouped_(options.groups > 1),
      has_neighbor_(options.neighbor.has_value()),
      interval_(options.neighbor ? options.neighbor->sync_interval : 0),
      first_slot_(BlockShapeOf(options).slot_count - SlotCount(options)),
      has_last_(!options.neighbor) {
  for (const GroupPeer& source : options.sources) taken_[source.group] = {};
}

std::span<float> GroupSync::Slot(size_t slot, ParameterShard& shard) const {
  MILLRACE_CHECK(has_neighbor_);
  const size_t size = shard.range().size();
  return shard.mutable_slots().subspan((first_slot_ + slot) * size, size);
}

void GroupSync::Begin(ParameterShard& shard) const {
  if (!has_neighbor_) return;
  std::ranges::copy(shard.weights(), Base(shard).begin());
  std::ranges::copy(shard.weights(), Last(shard).begin());
}

std::optional<uint64_t> GroupSync::updates_to_send() const {
  if (open_ || has_last_) return std::nullopt;
  return updates_;
}

bool GroupSync::TryBegin(bool is_wanted, bool all_left, ParameterShard& shard) {
  if (open_ || has_last_) return false;
  const bool ends = all_left && SourcesEnded();
  const bool is_due =
      updates_ >= interval_ || (is_wanted && updates_ > 0) || (all_left && is_changed_) || ends;
  if (!is_due) return false;
  std::ranges::copy(shard.weights(), Base(shard).begin());
  shard.MarkAllUpdated();
  ++number_;
  open_ = true;
  has_last_ = ends;
  updates_ = 0;
  is_changed_ = false;
  return true;
}

std::optional<uint64_t> GroupSync::open() const {
  return open_ ? std::optional(number_) : std::nullopt;
}

std::vector<float> GroupSync::Delta(const ParameterShard& shard) const {
  MILLRACE_CHECK(open_);
  const size_t size = shard.range().size();
  const std::span<const float> base = shard.slots().subspan(first_slot_ * size, size);
  const std::span<const float> last = shard.slots().subspan((first_slot_ + 1) * size, size);
  std::vector<float> delta(size);
  for (size_t i = 0; i < size; ++i) delta[i] = Moved(0, base[i], last[i]);
  return delta;
}

GroupSync::Taken GroupSync::TakeDelta(uint32_t group, const Gradient::Delta& delta,
                                      ParameterShard& shard) {
  Source& source = taken_.at(group);
  if (delta.number() == source.number) return Taken::kRepeated;
  if (delta.number() < source.number) return Taken::kOld;
  if (delta.number() != source.number + 1 || source.has_ended) return Taken::kImpossible;
  const std::span<float> values = shard.mutable_weights();
  const auto& changes = delta.slice().dense();
  MILLRACE_CHECK(static_cast<size_t>(changes.size()) == values.size());
  bool is_finite = true;
  for (size_t i = 0; i < values.size(); ++i) {
    is_finite = is_finite && std::isfinite(values[i] + changes[static_cast<int>(i)]);
  }
  source = {.number = delta.number(), .has_ended = delta.last()};
  if (!is_finite) return Taken::kNotFinite;
  for (size_t i = 0; i < values.size(); ++i) values[i] += changes[static_cast<int>(i)];
  shard.MarkAllUpdated();
  is_changed_ = true;
  ++changes_;
  return Taken::kApplied;
}

bool GroupSync::TakeValues(const Gradient::NeighborValues& values, std::span<const KeyRange> usable,
                           ParameterShard& shard) {
  if (!open_ || values.number() != number_) return false;
  const std::span<float> now = shard.mutable_weights();
  const std::span<float> base = Base(shard);
  const std::span<float> last = Last(shard);
  MILLRACE_CHECK(static_cast<size_t>(values.slice().dense_size()) == now.size());
  std::ranges::copy(base, last.begin());
  for (const KeyRange& keys : usable) {
    for (uint64_t key = keys.begin; key < keys.end; ++key) {
      const size_t i = key - shard.range().begin;
      const float there = values.slice().dense(static_cast<int>(i));
      const float moved = Moved(now[i], there, base[i]);
      if (!std::isfinite(moved)) continue;
      now[i] = moved;
      last[i] = there;
    }
  }
  shard.MarkAllUpdated();
  open_ = false;
  ++changes_;
  return true;
}

void GroupSync::AddFirst(KeyRange keys, std::span<const float> first, ParameterShard& shard) const {
  if (!has_neighbor_) return;
  const size_t begin = keys.begin - shard.range().begin;
  const std::span<float> base = Base(shard).subspan(begin, keys.size());
  const std::span<float> last = Last(shard).subspan(begin, keys.size());
  for (size_t i = 0; i < first.size(); ++i) {
    base[i] += first[i];
    last[i] += first[i];
  }
}

bool GroupSync::SourcesEnded() const {
  return std::ranges::all_of(taken_, [](const auto& entry) { return entry.second.has_ended; });
}

uint64_t GroupSync::deltas_taken() const {
  uint64_t sum = 0;
  for (const auto& [group, source] : taken_) sum += source.number;
  return sum;
}

void GroupSync::Save(ShardState& state) const {
  if (!is_grouped_) return;
  ShardState::Sync& saved = *state.mutable_sync();
  saved.set_group(group_);
  saved.set_number(number_);
  saved.set_open(open_);
  saved.set_last(has_last_);
  saved.set_updates(updates_);
  saved.set_changed(is_changed_);
  for (const auto& [group, source] : taken_) {
    ShardState::Sync::Taken& taken = *saved.add_taken();
    taken.set_group(group);
    taken.set_number(source.number);
    taken.set_last(source.has_ended);
  }
}

Status GroupSync::Load(const ShardState& state) {
  if (state.has_sync() != is_grouped_ || state.sync().group() != group_) {
    return BadSync("it is of another group of servers");
  }
  if (!is_grouped_) return absl::OkStatus();
  const ShardState::Sync& saved = state.sync();
  const bool has_exchanged = saved.number() > 0;
  if (saved.number() > kMostClock || saved.updates() > kMostClock ||
      (saved.open() && !has_exchanged) || (has_exchanged && !has_neighbor_) ||
      (!has_neighbor_ && !saved.last()) || (has_neighbor_ && saved.last() && !has_exchanged)) {
    return BadSync("its exchange " + std::to_string(saved.number()) + " cannot be");
  }
  if (static_cast<size_t>(saved.taken_size()) != taken_.size()) {
    return BadSync("it has taken deltas of other groups");
  }
  auto next = taken_.begin();
  for (const ShardState::Sync::Taken& taken : saved.taken()) {
    if (taken.group() != next->first || taken.number() > kMostClock ||
        (taken.last() && taken.number() == 0)) {
      return BadSync("it has taken delta " + std::to_string(taken.number()) + " of group " +
                     std::to_string(taken.group()) + ", which cannot be");
    }
    (next++)->second = {.number = taken.number(), .has_ended = taken.last()};
  }
  number_ = saved.number();
  open_ = saved.open();
  has_last_ = saved.last();
  updates_ = saved.updates();
  is_changed_ = saved.changed();
  return absl::OkStatus();
}

}  // namespace millrace
