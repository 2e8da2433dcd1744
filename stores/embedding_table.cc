#include "stores/embedding_table.h"

#include <algorithm>
#include <utility>

#include "base/big_endian.h"
#include "base/check.h"
#include "base/hash.h"
#include "messages/records.pb.h"
#include "topics/codec.h"
#include "topics/frame.h"

namespace millrace {
namespace {

constexpr char kRowPrefix = 'e';
constexpr size_t kKeyBytes = 1 + 4 + 8;

}  // namespace

EmbeddingTable::EmbeddingTable(const EmbeddingTableOptions& options, const OrderedByteMap* store)
    : options_(options), store_(store) {
  MILLRACE_CHECK(options.width() >= 1 && options.admit_after >= 1);
  most_rows_ = std::max<size_t>(1, options.cache_bytes / RowBytes());
}

// Floats, what is known of the row, and its share of the index.
size_t EmbeddingTable::RowBytes() const {
  return RowFloats() * sizeof(float) + sizeof(Row) + 2 * (sizeof(EmbeddingId) + sizeof(size_t));
}

std::string EmbeddingTable::KeyOf(EmbeddingId id) const {
  return kRowPrefix + EncodeBigEndian32(options_.table) + EncodeBigEndian64(id);
}

bool EmbeddingTable::IsRowKey(std::string_view key) {
  return key.size() == kKeyBytes && key.front() == kRowPrefix;
}

bool EmbeddingTable::Expired(const Row& row, int64_t now_ms) const {
  return options_.expire_after_ms > 0 && now_ms - row.updated_ms > options_.expire_after_ms;
}

void EmbeddingTable::Draw(EmbeddingId id, std::span<float> values) const {
  const uint64_t row = Mix64(Mix64(options_.seed + options_.table) ^ id);
  for (size_t column = 0; column < values.size(); ++column) {
    // (Not -0, where the limit is 0.)
    values[column] = options_.initial_limit[column] * EvenlyFrom(Mix64(row + column)) + 0.0f;
  }
}

StatusOr<std::optional<size_t>> EmbeddingTable::Find(EmbeddingId id) {
  const auto found = places_.find(id);
  if (found != places_.end()) {
    rows_[found->second].touched = true;
    return std::optional<size_t>(found->second);
  }
  if (store_ == nullptr) return std::optional<size_t>();
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<std::string> value, store_->Get(KeyOf(id)));
  if (!value) return std::optional<size_t>();
  const size_t place = NewPlace(id);
  if (Status status = Decode(*value, id, place); !status.ok()) {
    Free(place);
    return status;
  }
  return std::optional<size_t>(place);
}

size_t EmbeddingTable::NewPlace(EmbeddingId id) {
  if (places_.size() >= most_rows_) Evict();
  size_t place = rows_.size();
  if (free_.empty()) {
    rows_.emplace_back();
    floats_.resize(floats_.size() + RowFloats());
  } else {
    place = free_.back();
    free_.pop_back();
  }
  rows_[place] = {.id = id, .touched = true, .used = true};
  places_[id] = place;
  return place;
}

// Frees one place if any may be freed. The hand passes over what was touched since it last came by.
void EmbeddingTable::Evict() {
  for (size_t passed = 0; passed < 2 * rows_.size(); ++passed) {
    const size_t place = hand_;
    hand_ = (hand_ + 1) % rows_.size();
    Row& row = rows_[place];
    if (!row.used || row.updated || row.saving) continue;
    if (std::exchange(row.touched, false)) continue;
    Free(place);
    return;
  }
}

void EmbeddingTable::Free(size_t place) {
  places_.erase(rows_[place].id);
  rows_[place].used = false;
  free_.push_back(place);
}

Status EmbeddingTable::Read(std::span<const EmbeddingId> ids, int64_t now_ms,
                            std::span<float> values) {
  MILLRACE_CHECK(values.size() == ids.size() * width());
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::span<float> out = values.subspan(i * width(), width());
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<size_t> place, Find(ids[i]));
    if (!place || !Admitted(rows_[*place]) || Expired(rows_[*place], now_ms)) {
      Draw(ids[i], out);
    } else {
      std::ranges::copy(Values(*place), out.begin());
    }
  }
  return absl::OkStatus();
}

Status EmbeddingTable::Update(std::span<const EmbeddingId> ids, std::span<const float> gradients,
                              int64_t now_ms, const Step& step) {
  MILLRACE_CHECK(gradients.size() == ids.size() * width());
  for (size_t i = 0; i < ids.size(); ++i) {
    MILLRACE_ASSIGN_OR_RETURN(std::optional<size_t> place, Find(ids[i]));
    if (!place) place = NewPlace(ids[i]);
    Row& row = rows_[*place];
    if (Expired(row, now_ms)) row.updates = 0;
    row.updated_ms = now_ms;
    MarkUpdated(row);
    if (!Admitted(row) && ++row.updates == options_.admit_after) {
      Draw(row.id, Values(*place));
      std::ranges::fill(Slots(*place), 0.0f);
    }
    if (Admitted(row)) {
      step(gradients.subspan(i * width(), width()), Values(*place), Slots(*place));
    }
  }
  return absl::OkStatus();
}

void EmbeddingTable::MarkUpdated(Row& row) {
  if (row.updated) return;
  if (!row.saving) ++unsaved_;
  row.updated = true;
  updated_.push_back(row.id);
}

std::vector<EmbeddingId> EmbeddingTable::TakeUpdated() {
  std::vector<EmbeddingId> ids = std::exchange(updated_, {});
  std::ranges::sort(ids);
  for (EmbeddingId id : ids) {
    Row& row = rows_[places_.at(id)];
    row.updated = false;
    row.saving = true;
  }
  return ids;
}

void EmbeddingTable::Saved(std::span<const EmbeddingId> ids) {
  for (EmbeddingId id : ids) {
    Row& row = rows_[places_.at(id)];
    row.saving = false;
    if (!row.updated) --unsaved_;
  }
  // What was kept beyond the cache for want of a checkpoint goes now.
  while (places_.size() > std::max(most_rows_, unsaved_)) {
    const size_t before = places_.size();
    Evict();
    if (places_.size() == before) break;
  }
}

void EmbeddingTable::NotSaved(std::span<const EmbeddingId> ids) {
  for (EmbeddingId id : ids) {
    Row& row = rows_[places_.at(id)];
    row.saving = false;
    if (row.updated) continue;
    row.updated = true;
    updated_.push_back(id);
  }
}

EmbeddingTable::Encoded EmbeddingTable::Encode(EmbeddingId id) const {
  const size_t place = places_.at(id);
  const Row& row = rows_[place];
  EmbeddingRow message;
  message.set_updates(row.updates);
  message.set_updated_ms(row.updated_ms);
  if (Admitted(row)) {
    const float* floats = floats_.data() + place * RowFloats();
    message.mutable_values()->Add(floats, floats + width());
    message.mutable_slots()->Add(floats + width(), floats + RowFloats());
  }
  return {KeyOf(id), std::move(MakeFrames(message.SerializeAsString(), 0).front())};
}

Status EmbeddingTable::Decode(std::string_view value, EmbeddingId id, size_t place) {
  const StatusOr<Frame> frame = ParseFrame(value);
  EmbeddingRow message;
  if (!frame.ok() || frame->is_chunk || !ParseMessage(frame->body, message).ok()) {
    return absl::DataLossError("embedding row " + std::to_string(id) + " of table " +
                               std::to_string(options_.table) + " cannot be decoded");
  }
  Row& row = rows_[place];
  row.updates = message.updates();
  row.updated_ms = message.updated_ms();
  const size_t values = Admitted(row) ? width() : 0;
  const size_t slots = Admitted(row) ? slot_floats() : 0;
  if (static_cast<size_t>(message.values_size()) != values ||
      static_cast<size_t>(message.slots_size()) != slots) {
    return absl::DataLossError("embedding row " + std::to_string(id) + " of table " +
                               std::to_string(options_.table) + " has " +
                               std::to_string(message.values_size()) + " values and " +
                               std::to_string(message.slots_size()) + " of optimizer state where " +
                               std::to_string(values) + " and " + std::to_string(slots) +
                               " are right: it was written by a job of another shape");
  }
  std::ranges::copy(message.values(), Values(place).begin());
  std::ranges::copy(message.slots(), Slots(place).begin());
  return absl::OkStatus();
}

}  // namespace millrace
