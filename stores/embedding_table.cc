#include "stores/embedding_table.h"

#include <algorithm>
#include <functional>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/initial_row.h"
#include "base/prefetch.h"

namespace millrace {
namespace {

// Rows are scattered over the memory, and so is their index. None is waited for: what is asked for
// some steps ahead is there when its turn comes.
constexpr size_t kPlacesAhead = 8;

}  // namespace

void DrawInitialRow(const EmbeddingTableOptions& options, EmbeddingId id, std::span<float> values) {
  const std::vector<float>& limit = options.limits_by_prefix.empty()
                                        ? options.initial_limit
                                        : options.limits_by_prefix.at(id >> 56);
  DrawInitialValues(options.seed, options.table, id, limit, values);
}

EmbeddingTable::EmbeddingTable(const EmbeddingTableOptions& options, const OrderedByteMap* store)
    : options_(options),
      store_(store),
      space_(PlaceBytes(), SpaceOptions(options.cache_bytes)),
      places_(0, Hash{}, Equal{this}) {
  MILLRACE_CHECK(options.width() >= 1 && options.admit_after >= 1);
}

RowSpaceOptions EmbeddingTable::SpaceOptions(size_t cache_bytes) const {
  // A row in memory takes its share of the index, too.
  const size_t rows = cache_bytes / (PlaceBytes() + 2 * sizeof(Indexed));
  return {.memory_bytes = std::max<size_t>(1, rows) * PlaceBytes(),
          .scratch_bytes = options_.scratch_bytes,
          .scratch_folder = options_.scratch_folder};
}

bool EmbeddingTable::Expired(const Row& row, int64_t now_ms) const {
  return HasExpired(row.head(), now_ms, options_.expire_after_ms);
}

void EmbeddingTable::CatchUp(size_t place, const RowTime& now, std::span<float> values) const {
  const double missed = now.shrinkage - RowAt(place).shrinkage;
  if (missed > 0 && options_.catch_up) options_.catch_up(missed, values, Slots(place));
}

Status EmbeddingTable::Take(std::span<const EmbeddingId> ids) {
  LetGo();
  // (GCC drops a call to `prefetch` that it does not inline, for want of an effect: Hash must stay
  // that small.)
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i + kPlacesAhead < ids.size()) places_.prefetch(ids[i + kPlacesAhead]);
    const auto probable = places_.find(Candidate{IdBits(ids[i])});
    in_hand_.push_back(probable == places_.end() ? kNowhere : probable->place);
    if (in_hand_.back() != kNowhere) Prefetch(space_.at(in_hand_.back()), PlaceBytes());
  }
  std::vector<size_t> missing;
  for (size_t i = 0; i < ids.size(); ++i) {
    size_t& place = in_hand_[i];
    if (place != kNowhere && RowAt(place).id != ids[i]) {
      const auto found = places_.find(ids[i]);
      place = found == places_.end() ? kNowhere : found->place;
    }
    if (place == kNowhere) {
      missing.push_back(i);
    } else {
      RowAt(place).in_hand = RowAt(place).touched = true;
    }
  }
  if (missing.empty() || store_ == nullptr) return absl::OkStatus();
  return ReadStore(ids, missing);
}

void EmbeddingTable::LetGo() {
  for (const size_t place : in_hand_) {
    if (place != kNowhere) RowAt(place).in_hand = false;
  }
  in_hand_.clear();
  none_to_evict_ = false;
}

StatusOr<bool> EmbeddingTable::StoreMayHaveMore() {
  if (has_evicted_) return true;
  if (!store_had_rows_) {
    bool has_rows = false;
    const auto look = [&](std::string_view key, std::string_view /*value*/) {
      has_rows = EmbeddingIdOf(key, options_.table).has_value();
      return false;
    };
    MILLRACE_RETURN_IF_ERROR(store_->Scan(EmbeddingRowKey(options_.table, 0), {}, look));
    store_had_rows_ = has_rows;
  }
  return *store_had_rows_;
}

Status EmbeddingTable::ReadStore(std::span<const EmbeddingId> ids,
                                 std::span<const size_t> missing) {
  MILLRACE_ASSIGN_OR_RETURN(const bool may_have_more, StoreMayHaveMore());
  if (!may_have_more) return absl::OkStatus();
  std::vector<std::string> keys;
  keys.reserve(missing.size());
  for (const size_t i : missing) keys.push_back(EmbeddingRowKey(options_.table, ids[i]));
  Status status = absl::OkStatus();
  const auto take = [&](size_t k, std::string_view value) {
    const EmbeddingId id = ids[missing[k]];
    const size_t place = NewPlace(id);
    const StatusOr<EmbeddingRowHead> head =
        DecodeEmbeddingRow(value, options_.admit_after, width(), Floats(place));
    if (head.ok()) {
      Row& row = RowAt(place);
      row.updates = head->updates;
      row.updated_ms = head->updated_ms;
      row.shrinkage = head->shrinkage;
      in_hand_[missing[k]] = place;
      return;
    }
    Free(place);
    status = absl::DataLossError(
        "embedding row " + std::to_string(id) + " of table " + std::to_string(options_.table) +
        " in this server's store " + std::string(head.status().message()) +
        ". Stop the server, move its data folder away, and start it again: it restores the shard "
        "from a replica or from the topic parameters");
  };
  MILLRACE_RETURN_IF_ERROR(store_->GetMany(keys, take));
  return status;
}

size_t EmbeddingTable::NewPlace(EmbeddingId id) {
  while (places_.size() >= space_.fitting()) {
    if (!Evict()) break;
  }
  if (free_.empty()) {
    MILLRACE_CHECK(space_.size() < UINT32_MAX);
    free_.push_back(static_cast<uint32_t>(space_.size()));
    space_.Add();
  }
  const uint32_t place = free_.back();
  free_.pop_back();
  new (space_.at(place)) Row{.id = id, .touched = true, .used = true, .in_hand = true};
  places_.insert({IdBits(id), place});
  return place;
}

// Frees one place if any may be freed. The hand passes over what was touched since it last came by.
bool EmbeddingTable::Evict() {
  if (unsaved_ >= places_.size() || none_to_evict_) return false;
  for (size_t passed = 0; passed < 2 * space_.size(); ++passed) {
    const size_t place = hand_;
    hand_ = (hand_ + 1) % space_.size();
    Row& row = RowAt(place);
    if (!row.used || row.updated || row.saving || row.in_hand) continue;
    const bool touched = row.touched;
    row.touched = false;
    if (touched) continue;
    Free(place);
    has_evicted_ = true;
    return true;
  }
  none_to_evict_ = true;
  return false;
}

void EmbeddingTable::Free(size_t place) {
  places_.erase(Indexed{IdBits(RowAt(place).id), static_cast<uint32_t>(place)});
  RowAt(place).used = false;
  free_.push_back(static_cast<uint32_t>(place));
}

Status EmbeddingTable::Read(std::span<const EmbeddingId> ids, const RowTime& now,
                            std::span<float> values) {
  MILLRACE_CHECK(values.size() == ids.size() * width());
  MILLRACE_CHECK(std::ranges::is_sorted(ids));
  for (size_t begin = 0; begin < ids.size(); begin += kAtOnce) {
    const auto some = ids.subspan(begin, std::min(kAtOnce, ids.size() - begin));
    MILLRACE_RETURN_IF_ERROR(Take(some));
    for (size_t i = 0; i < some.size(); ++i) {
      CopyValues(in_hand_[i], some[i], now, values.subspan((begin + i) * width(), width()));
    }
  }
  LetGo();
  return absl::OkStatus();
}

void EmbeddingTable::CopyValues(size_t place, EmbeddingId id, const RowTime& now,
                                std::span<float> out) const {
  if (place == kNowhere || !Admitted(RowAt(place)) || Expired(RowAt(place), now.ms)) {
    Draw(id, out);
    return;
  }
  std::ranges::copy(Values(place), out.begin());
  CatchUp(place, now, out);
}

Status EmbeddingTable::Update(std::span<const EmbeddingId> ids, std::span<const float> gradients,
                              const RowTime& now, double shrinkage_after, const Step& step,
                              const Before& before) {
  MILLRACE_CHECK(gradients.size() == ids.size() * width());
  const bool keeps = !before.values.empty();
  MILLRACE_CHECK(!keeps || before.values.size() == gradients.size());
  MILLRACE_CHECK(std::ranges::adjacent_find(ids, std::greater_equal<>()) == ids.end());
  for (size_t begin = 0; begin < ids.size(); begin += kAtOnce) {
    const auto some = ids.subspan(begin, std::min(kAtOnce, ids.size() - begin));
    MILLRACE_RETURN_IF_ERROR(Take(some));
    for (size_t i = 0; i < some.size(); ++i) {
      if (keeps) {
        CopyValues(in_hand_[i], some[i], before.at,
                   before.values.subspan((begin + i) * width(), width()));
      }
      if (in_hand_[i] == kNowhere) in_hand_[i] = NewPlace(some[i]);
      const size_t place = in_hand_[i];
      MarkUpdated(place);
      Row& row = RowAt(place);
      if (Expired(row, now.ms)) row.updates = 0;
      row.updated_ms = now.ms;
      if (Admitted(row)) {
        CatchUp(place, now, Values(place));
      } else if (++row.updates == options_.admit_after) {
        Draw(row.id, Values(place));
        std::ranges::fill(Slots(place), 0.0f);
      }
      row.shrinkage = shrinkage_after;
      if (Admitted(row)) {
        step(gradients.subspan((begin + i) * width(), width()), Values(place), Slots(place));
      }
    }
  }
  LetGo();
  return absl::OkStatus();
}

void EmbeddingTable::MarkUpdated(size_t place) {
  Row& row = RowAt(place);
  if (row.updated) return;
  if (!row.saving) ++unsaved_;
  row.updated = true;
  updated_.push_back(static_cast<uint32_t>(place));
}

bool EmbeddingTable::is_short_of_room() const {
  constexpr size_t kMostBytes = size_t{192} << 20;
  size_t most = std::min(space_.fitting() / 2, kMostBytes / PlaceBytes());
  if (!frozen_scratch_status_.ok()) most = std::min(most, options_.cache_bytes / 2 / PlaceBytes());
  return unsaved_ >= std::max<size_t>(1, most);
}

FrozenRows EmbeddingTable::NoRows() {
  // The last rows' room is used again, unless somebody has them still, or they took more memory
  // than they may for want of a disk. (Whoever had them has handed them back under a lock, or never
  // was another thread.)
  if (frozen_room_.use_count() != 1 || !frozen_room_->scratch_status().ok()) {
    frozen_room_ = FrozenRows::NewRoom(RowFloats(), SpaceOptions(options_.cache_bytes / 2));
  }
  frozen_room_->Clear();
  return {options_.table, width(), slot_floats(), frozen_room_};
}

FrozenRows EmbeddingTable::FreezeUpdated() {
  FrozenRows frozen = NoRows();
  frozen.Reserve(updated_.size());
  for (size_t i = 0; i < updated_.size(); ++i) {
    if (i + kPlacesAhead < updated_.size()) {
      Prefetch(space_.at(updated_[i + kPlacesAhead]), PlaceBytes());
    }
    const uint32_t place = updated_[i];
    Row& row = RowAt(place);
    frozen.Add(row.id, place, row.head(), Admitted(row) ? Floats(place) : std::span<const float>());
    row.updated = false;
    row.saving = true;
  }
  updated_.clear();
  if (!frozen_room_->scratch_status().ok()) {
    frozen_scratch_status_ = frozen_room_->scratch_status();
  }
  return frozen;
}

void EmbeddingTable::Saved(const FrozenRows& rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i + kPlacesAhead < rows.size()) {
      Prefetch(space_.at(rows.place(i + kPlacesAhead)), sizeof(Row));
    }
    Row& row = RowAt(rows.place(i));
    row.saving = false;
    if (!row.updated) --unsaved_;
  }
  none_to_evict_ = false;
  // What was kept beyond the cache for want of a checkpoint goes now.
  while (places_.size() > space_.fitting()) {
    if (!Evict()) break;
  }
}

void EmbeddingTable::NotSaved(const FrozenRows& rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    Row& row = RowAt(rows.place(i));
    row.saving = false;
    if (row.updated) continue;
    row.updated = true;
    updated_.push_back(rows.place(i));
  }
}

}  // namespace millrace
