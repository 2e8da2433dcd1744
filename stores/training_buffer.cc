#include "stores/training_buffer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/big_endian.h"
#include "base/check.h"

namespace millrace {
namespace {

constexpr uint32_t kStateSlot = 0xffffffff;  // the key of the rate's state: no slot has it
constexpr char kFormat = 1;

// Memory that a slot without a row, or with a much smaller one, may keep: enough for ordinary rows
// to be stored without allocating, not so much that one huge row stays for ever.
constexpr size_t kSpareBytes = 4096;

void Store(std::string_view value, std::string& held) {
  if (held.capacity() > kSpareBytes && held.capacity() / 2 > value.size()) {
    std::string(value).swap(held);  // assigning a short string would keep the memory
  } else {
    held.assign(value);
  }
}

std::string EncodeSlot(const TrainingBuffer::Slot& slot) {
  std::string bytes;
  bytes.reserve(1 + 2 * sizeof(uint64_t) + slot.value.size());
  bytes += kFormat;
  bytes += EncodeBigEndian64(slot.row);
  bytes += EncodeBigEndian64(static_cast<uint64_t>(slot.timestamp_ms));
  bytes += slot.value;
  return bytes;
}

std::optional<TrainingBuffer::Slot> DecodeSlot(std::string_view bytes) {
  constexpr size_t kHeader = 1 + 2 * sizeof(uint64_t);
  if (bytes.size() < kHeader || bytes.front() != kFormat) return std::nullopt;
  return TrainingBuffer::Slot{RowNumber(*DecodeBigEndian64(bytes.substr(1, sizeof(uint64_t)))),
                              static_cast<int64_t>(*DecodeBigEndian64(
                                  bytes.substr(1 + sizeof(uint64_t), sizeof(uint64_t)))),
                              std::string(bytes.substr(kHeader))};
}

// What is written beside the slots.
struct State {
  uint32_t slot_count = 0;
  uint32_t row_count = 0;
  ArrivalRate rate;
};

std::string EncodeArrivalState(const State& state) {
  std::string bytes(1, kFormat);
  bytes += EncodeBigEndian32(state.slot_count);
  bytes += EncodeBigEndian32(state.row_count);
  state.rate.AppendTo(bytes);
  return bytes;
}

std::optional<State> DecodeArrivalState(std::string_view bytes) {
  constexpr size_t kHeader = 1 + 2 * sizeof(uint32_t);
  if (bytes.size() < kHeader || bytes.front() != kFormat) return std::nullopt;
  State state;
  state.slot_count = *DecodeBigEndian32(bytes.substr(1, sizeof(uint32_t)));
  state.row_count = *DecodeBigEndian32(bytes.substr(1 + sizeof(uint32_t), sizeof(uint32_t)));
  if (state.slot_count > TrainingBuffer::kMaxRows || state.row_count > state.slot_count ||
      !state.rate.ParseFrom(bytes.substr(kHeader))) {
    return std::nullopt;
  }
  return state;
}

std::string PrintableKey(std::string_view key) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text;
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '\\') {
      text += c;
    } else {
      text += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return text;
}

Status Damaged(std::string_view key, std::string_view what) {
  return absl::DataLossError("training buffer, key '" + PrintableKey(key) +
                             "': " + std::string(what) +
                             "; the buffer is damaged and must be read from input-data again");
}

// The first key after all that begin with `prefix`; empty if there is none.
std::string PrefixEnd(std::string prefix) {
  while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 0xff) prefix.pop_back();
  if (!prefix.empty()) prefix.back() = static_cast<char>(prefix.back() + 1);
  return prefix;
}

}  // namespace

TrainingBuffer::TrainingBuffer(const TrainingBufferOptions& options, std::string key_prefix)
    : options_(options), key_prefix_(std::move(key_prefix)), target_(options.min_rows) {
  MILLRACE_CHECK(options.min_rows >= 1 && options.min_rows <= options.max_rows &&
                 options.max_rows <= kMaxRows);
  MILLRACE_CHECK(options.coefficient >= 0);
  Resize(options.max_rows);
}

// Leaves all slots empty.
void TrainingBuffer::Resize(size_t slots) {
  slots_.assign(slots, Slot());
  is_used_.assign(slots, 0);
  order_.assign(slots, 0);
  first_ = 0;
  size_ = 0;
  is_changed_.assign(slots, 0);
  changed_.clear();
  changed_.reserve(slots);
  empty_slots_.clear();
  empty_slots_.reserve(slots);
  for (size_t slot = slots; slot-- > 0;) empty_slots_.push_back(static_cast<uint32_t>(slot));
}

std::string TrainingBuffer::SlotKey(uint32_t slot) const {
  return key_prefix_ + EncodeBigEndian32(slot);
}

void TrainingBuffer::MarkChanged(uint32_t slot) {
  if (is_changed_[slot]) return;
  is_changed_[slot] = 1;
  changed_.push_back(slot);
}

void TrainingBuffer::UpdateTarget() {
  const std::optional<double> rate = rate_.RowsPerMinute();
  if (!rate) {
    target_ = options_.min_rows;
    return;
  }
  // Compared before it is converted: it may be infinite, or infinity times zero.
  const double wanted = options_.coefficient * *rate;
  if (wanted >= static_cast<double>(options_.max_rows)) {
    target_ = options_.max_rows;
  } else if (wanted >= static_cast<double>(options_.min_rows)) {
    target_ = static_cast<size_t>(wanted);
  } else {
    target_ = options_.min_rows;
  }
}

void TrainingBuffer::Evict() {
  const uint32_t slot = order_[first_];
  first_ = Wrap(first_ + 1);
  --size_;
  Store({}, slots_[slot].value);
  is_used_[slot] = 0;
  empty_slots_.push_back(slot);
  MarkChanged(slot);
}

void TrainingBuffer::Add(RowNumber row, int64_t timestamp_ms, std::string_view value) {
  MILLRACE_CHECK(size_ == 0 || row > newest().row);
  rate_.Add(timestamp_ms);
  is_state_changed_ = true;
  UpdateTarget();
  while (size_ > target_) Evict();
  uint32_t slot;
  if (size_ < target_) {
    slot = empty_slots_.back();
    empty_slots_.pop_back();
    is_used_[slot] = 1;
    ++size_;
  } else {
    slot = order_[first_];
    first_ = Wrap(first_ + 1);
  }
  order_[Wrap(first_ + size_ - 1)] = slot;
  slots_[slot].row = row;
  slots_[slot].timestamp_ms = timestamp_ms;
  Store(value, slots_[slot].value);
  MarkChanged(slot);
}

void TrainingBuffer::ForEach(const std::function<void(const Slot&)>& visit) const {
  for (size_t i = 0; i < size_; ++i) visit(slots_[order_[Wrap(first_ + i)]]);
}

void TrainingBuffer::WriteTo(WriteBatch& batch) {
  for (const std::string& key : stale_keys_) batch.Delete(key);
  stale_keys_.clear();
  for (const uint32_t slot : changed_) {
    if (is_used_[slot]) {
      batch.Put(SlotKey(slot), EncodeSlot(slots_[slot]));
    } else {
      batch.Delete(SlotKey(slot));
    }
    is_changed_[slot] = 0;
  }
  changed_.clear();
  if (!is_state_changed_) return;
  is_state_changed_ = false;
  batch.Put(SlotKey(kStateSlot), EncodeArrivalState({static_cast<uint32_t>(slots_.size()),
                                                     static_cast<uint32_t>(size_), rate_}));
}

Status TrainingBuffer::Restore(const OrderedByteMap& store) {
  std::vector<std::pair<uint32_t, Slot>> rows;
  std::optional<State> state;
  Status damage;
  MILLRACE_RETURN_IF_ERROR(store.Scan(
      key_prefix_, PrefixEnd(key_prefix_), [&](std::string_view key, std::string_view value) {
        const std::optional<uint32_t> slot = DecodeBigEndian32(key.substr(key_prefix_.size()));
        if (!slot) {
          damage = Damaged(key, "it is not the key of a slot");
        } else if (*slot == kStateSlot) {
          state = DecodeArrivalState(value);
          if (!state) damage = Damaged(key, "its value is not the state of a buffer");
        } else if (std::optional<Slot> row = DecodeSlot(value)) {
          rows.emplace_back(*slot, *std::move(row));
        } else {
          damage = Damaged(key, "its value is not a row");
        }
        return damage.ok();
      }));
  MILLRACE_RETURN_IF_ERROR(damage);
  if (!state && !rows.empty()) {
    return Damaged(SlotKey(kStateSlot), "its state is missing, but it has rows");
  }
  if (!state) state.emplace();
  if (rows.size() != state->row_count) {
    return Damaged(SlotKey(kStateSlot), "its state names " + std::to_string(state->row_count) +
                                            " rows, but it has " + std::to_string(rows.size()));
  }
  std::sort(rows.begin(), rows.end(),
            [](const auto& a, const auto& b) { return a.second.row < b.second.row; });
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto& [slot, row] = rows[i];
    if (slot >= state->slot_count) return Damaged(SlotKey(slot), "the buffer has no such slot");
    if (i > 0 && row.row == rows[i - 1].second.row) {
      return Damaged(SlotKey(slot), "row " + std::to_string(row.row) + " is in it twice");
    }
  }
  if (!rows.empty() && rows.back().second.timestamp_ms != state->rate.last_ms()) {
    return Damaged(SlotKey(rows.back().first),
                   "the newest row is not the one that its state names");
  }

  stale_keys_.clear();
  rate_ = std::move(state->rate);
  is_state_changed_ = false;
  Resize(std::max<size_t>(options_.max_rows, state->slot_count));
  for (auto& [slot, row] : rows) {
    slots_[slot] = std::move(row);
    is_used_[slot] = 1;
    order_[size_++] = slot;
  }
  std::erase_if(empty_slots_, [this](uint32_t slot) { return is_used_[slot] != 0; });
  UpdateTarget();
  // None, if the options are what they were.
  if (size_ > target_) is_state_changed_ = true;
  while (size_ > target_) Evict();
  return absl::OkStatus();
}

Status TrainingBuffer::Clear(const OrderedByteMap& store) {
  std::vector<std::string> keys;
  MILLRACE_RETURN_IF_ERROR(
      store.Scan(key_prefix_, PrefixEnd(key_prefix_), [&](std::string_view key, std::string_view) {
        keys.emplace_back(key);
        return true;
      }));
  stale_keys_ = std::move(keys);
  rate_ = ArrivalRate();
  is_state_changed_ = false;
  Resize(options_.max_rows);
  UpdateTarget();
  return absl::OkStatus();
}

}  // namespace millrace
