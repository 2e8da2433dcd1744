#include "stores/embedding_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/hash.h"

namespace millrace {

EmbeddingTable::EmbeddingTable(const EmbeddingTableOptions& options, const OrderedByteMap* store)
    : options_(options), store_(store) {
  MILLRACE_CHECK(options.width() >= 1 && options.admit_after >= 1);
  most_rows_ = std::max<size_t>(1, options.cache_bytes / RowBytes());
}

// Floats, what is known of the row, and its share of the index.
size_t EmbeddingTable::RowBytes() const {
  return RowFloats() * sizeof(float) + sizeof(Row) + 2 * (sizeof(EmbeddingId) + sizeof(size_t));
}

bool EmbeddingTable::Expired(const Row& row, int64_t now_ms) const {
  return options_.expire_after_ms > 0 && now_ms - row.head.updated_ms > options_.expire_after_ms;
}

void EmbeddingTable::Draw(EmbeddingId id, std::span<float> values) const {
  const uint64_t row = Mix64(Mix64(options_.seed + options_.table) ^ id);
  for (size_t column = 0; column < values.size(); ++column) {
    // (Not -0, where the limit is 0.)
    values[column] = options_.initial_limit[column] * EvenlyFrom(Mix64(row + column)) + 0.0f;
  }
}

Status EmbeddingTable::Take(std::span<const EmbeddingId> ids) {
  LetGo();
  std::vector<size_t> missing;
  for (size_t i = 0; i < ids.size(); ++i) {
    // Rows are scattered over the memory. What is asked for some steps ahead is not waited for.
    constexpr size_t kAhead = 8;
    if (i + kAhead < ids.size()) places_.prefetch(ids[i + kAhead]);
    const auto found = places_.find(ids[i]);
    if (found == places_.end()) {
      in_hand_.push_back(kNowhere);
      missing.push_back(i);
      continue;
    }
    in_hand_.push_back(found->second);
    __builtin_prefetch(&rows_[found->second]);
    constexpr size_t kLineFloats = 64 / sizeof(float);
    const float* const floats = floats_.data() + found->second * RowFloats();
    for (size_t k = 0; k < RowFloats(); k += kLineFloats) __builtin_prefetch(floats + k);
  }
  for (const size_t place : in_hand_) {
    if (place != kNowhere) rows_[place].in_hand = rows_[place].touched = true;
  }
  if (missing.empty() || store_ == nullptr) return absl::OkStatus();
  return ReadStore(ids, missing);
}

void EmbeddingTable::LetGo() {
  for (const size_t place : in_hand_) {
    if (place != kNowhere) rows_[place].in_hand = false;
  }
  in_hand_.clear();
}

Status EmbeddingTable::ReadStore(std::span<const EmbeddingId> ids,
                                 std::span<const size_t> missing) {
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
      rows_[place].head = *head;
      in_hand_[missing[k]] = place;
      return;
    }
    Free(place);
    status = absl::DataLossError("embedding row " + std::to_string(id) + " of table " +
                                 std::to_string(options_.table) + " " +
                                 std::string(head.status().message()));
  };
  MILLRACE_RETURN_IF_ERROR(store_->GetMany(keys, take));
  return status;
}

size_t EmbeddingTable::NewPlace(EmbeddingId id) {
  while (places_.size() >= most_rows_) {
    if (!Evict()) break;
  }
  size_t place = rows_.size();
  if (free_.empty()) {
    rows_.emplace_back();
    floats_.resize(floats_.size() + RowFloats());
  } else {
    place = free_.back();
    free_.pop_back();
  }
  rows_[place] = {.id = id, .touched = true, .used = true, .in_hand = true};
  places_[id] = place;
  return place;
}

// Frees one place if any may be freed. The hand passes over what was touched since it last came by.
bool EmbeddingTable::Evict() {
  if (unsaved_ >= places_.size()) return false;
  for (size_t passed = 0; passed < 2 * rows_.size(); ++passed) {
    const size_t place = hand_;
    hand_ = (hand_ + 1) % rows_.size();
    Row& row = rows_[place];
    if (!row.used || row.updated || row.saving || row.in_hand) continue;
    if (std::exchange(row.touched, false)) continue;
    Free(place);
    return true;
  }
  return false;
}

void EmbeddingTable::Free(size_t place) {
  places_.erase(rows_[place].id);
  rows_[place].used = false;
  free_.push_back(place);
}

Status EmbeddingTable::Read(std::span<const EmbeddingId> ids, int64_t now_ms,
                            std::span<float> values) {
  MILLRACE_CHECK(values.size() == ids.size() * width());
  for (size_t begin = 0; begin < ids.size(); begin += kAtOnce) {
    const auto some = ids.subspan(begin, std::min(kAtOnce, ids.size() - begin));
    MILLRACE_RETURN_IF_ERROR(Take(some));
    for (size_t i = 0; i < some.size(); ++i) {
      const std::span<float> out = values.subspan((begin + i) * width(), width());
      const size_t place = in_hand_[i];
      if (place == kNowhere || !Admitted(rows_[place]) || Expired(rows_[place], now_ms)) {
        Draw(some[i], out);
      } else {
        std::ranges::copy(Values(place), out.begin());
      }
    }
  }
  LetGo();
  return absl::OkStatus();
}

Status EmbeddingTable::Update(std::span<const EmbeddingId> ids, std::span<const float> gradients,
                              int64_t now_ms, const Step& step) {
  MILLRACE_CHECK(gradients.size() == ids.size() * width());
  for (size_t begin = 0; begin < ids.size(); begin += kAtOnce) {
    const auto some = ids.subspan(begin, std::min(kAtOnce, ids.size() - begin));
    MILLRACE_RETURN_IF_ERROR(Take(some));
    for (size_t i = 0; i < some.size(); ++i) {
      if (in_hand_[i] == kNowhere) in_hand_[i] = NewPlace(some[i]);
      const size_t place = in_hand_[i];
      MarkUpdated(place);
      Row& row = rows_[place];
      if (Expired(row, now_ms)) row.head.updates = 0;
      row.head.updated_ms = now_ms;
      if (!Admitted(row) && ++row.head.updates == options_.admit_after) {
        Draw(row.id, Values(place));
        std::ranges::fill(Slots(place), 0.0f);
      }
      if (Admitted(row)) {
        step(gradients.subspan((begin + i) * width(), width()), Values(place), Slots(place));
      }
    }
  }
  LetGo();
  return absl::OkStatus();
}

void EmbeddingTable::MarkUpdated(size_t place) {
  Row& row = rows_[place];
  if (row.updated) return;
  if (!row.saving) ++unsaved_;
  row.updated = true;
  updated_.push_back(place);
}

FrozenRows EmbeddingTable::FreezeUpdated() {
  FrozenRows frozen(options_.table, width(), slot_floats());
  frozen.Reserve(updated_.size());
  for (const size_t place : updated_) {
    Row& row = rows_[place];
    frozen.Add(row.id, place, row.head, Admitted(row) ? Floats(place) : std::span<const float>());
    row.updated = false;
    row.saving = true;
  }
  updated_.clear();
  return frozen;
}

void EmbeddingTable::Saved(const FrozenRows& rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    Row& row = rows_[rows.place(i)];
    row.saving = false;
    if (!row.updated) --unsaved_;
  }
  // What was kept beyond the cache for want of a checkpoint goes now.
  while (places_.size() > most_rows_) {
    if (!Evict()) break;
  }
}

void EmbeddingTable::NotSaved(const FrozenRows& rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    Row& row = rows_[rows.place(i)];
    row.saving = false;
    if (row.updated) continue;
    row.updated = true;
    updated_.push_back(rows.place(i));
  }
}

}  // namespace millrace
