#include "stores/frozen_rows.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include "base/big_endian.h"
#include "base/prefetch.h"
#include "base/radix_sort.h"
#include "messages/records.pb.h"
#include "topics/frame.h"
#include "topics/message_codec.h"

namespace millrace {
namespace {

StatusOr<EmbeddingRow> ParseRow(std::string_view value) {
  const StatusOr<Frame> frame = ParseFrame(value);
  EmbeddingRow message;
  if (!frame.ok() || frame->is_chunk || !ParseMessage(frame->body, message).ok()) {
    return absl::DataLossError("cannot be decoded");
  }
  if (!std::isfinite(message.shrinkage()) || message.shrinkage() < 0) {
    return absl::DataLossError("has a shrinkage that is no sum of penalties");
  }
  if (message.updated_ms() < 0) return absl::DataLossError("has a time below 0");
  return message;
}

EmbeddingRowHead HeadOf(const EmbeddingRow& message) {
  return {message.updates(), message.updated_ms(), message.shrinkage()};
}

constexpr char kRowPrefix = 'e';
constexpr size_t kRowKeyBytes = 1 + 4 + 8;

}  // namespace

std::string EmbeddingRowKey(uint32_t table, EmbeddingId id) {
  return kRowPrefix + EncodeBigEndian32(table) + EncodeBigEndian64(id);
}

bool IsEmbeddingRowKey(std::string_view key) {
  return key.size() == kRowKeyBytes && key.front() == kRowPrefix;
}

std::optional<EmbeddingId> EmbeddingIdOf(std::string_view key, uint32_t table) {
  constexpr size_t kIdAt = kRowKeyBytes - sizeof(EmbeddingId);
  if (!IsEmbeddingRowKey(key) || DecodeBigEndian32(key.substr(1, kIdAt - 1)) != table) {
    return std::nullopt;
  }
  return DecodeBigEndian64(key.substr(kIdAt));
}

FrozenRows::FrozenRows(uint32_t table, size_t width, size_t slot_floats,
                       std::shared_ptr<RowSpace> room)
    : table_(table), width_(width), row_floats_(width + slot_floats), room_(std::move(room)) {}

std::shared_ptr<RowSpace> FrozenRows::NewRoom(size_t floats, const RowSpaceOptions& options) {
  return std::make_shared<RowSpace>(sizeof(Row) + floats * sizeof(float), options);
}

void FrozenRows::Add(EmbeddingId id, uint32_t place, const EmbeddingRowHead& head,
                     std::span<const float> floats) {
  order_.push_back({id, static_cast<uint32_t>(room_->size()), place});
  room_->Add();
  std::byte* const begin = room_->at(order_.back().row);
  new (begin) Row{head, !floats.empty()};
  std::ranges::copy(floats, reinterpret_cast<float*>(begin + sizeof(Row)));
}

void FrozenRows::SortById() {
  RadixSort(order_, [](const Entry& entry) { return entry.id; });
}

size_t FrozenRows::Encode(size_t begin, const Visit& visit) const {
  EmbeddingRow message;  // its memory is used again
  std::string value;
  const size_t row_bytes = sizeof(Row) + row_floats_ * sizeof(float);
  for (size_t i = begin; i < order_.size(); ++i) {
    // (Sorted by id, they are scattered over the room.)
    constexpr size_t kRowsAhead = 4;
    if (i + kRowsAhead < order_.size()) {
      Prefetch(room_->at(order_[i + kRowsAhead].row), row_bytes);
    }
    const Row& row = RowAt(i);
    message.Clear();
    message.set_updates(row.head.updates);
    message.set_updated_ms(row.head.updated_ms);
    message.set_shrinkage(row.head.shrinkage);
    if (row.admitted) {
      const auto* const floats = reinterpret_cast<const float*>(&row + 1);
      message.mutable_values()->Add(floats, floats + width_);
      message.mutable_slots()->Add(floats + width_, floats + row_floats_);
    }
    value = WholeFrameHeader();
    message.AppendToString(&value);
    if (!visit(EmbeddingRowKey(table_, order_[i].id), value)) return i + 1 - begin;
  }
  return order_.size() - begin;
}

StatusOr<EmbeddingRowHead> DecodeEmbeddingRow(std::string_view value, uint32_t admit_after,
                                              size_t width, std::span<float> floats) {
  MILLRACE_ASSIGN_OR_RETURN(const EmbeddingRow message, ParseRow(value));
  const bool admitted = message.updates() >= admit_after;
  const size_t values = admitted ? width : 0;
  const size_t slots = admitted ? floats.size() - width : 0;
  if (static_cast<size_t>(message.values_size()) != values ||
      static_cast<size_t>(message.slots_size()) != slots) {
    return absl::DataLossError("has " + std::to_string(message.values_size()) + " values and " +
                               std::to_string(message.slots_size()) +
                               " optimizer values, but this job needs " + std::to_string(values) +
                               " and " + std::to_string(slots) +
                               ": it was written by a job with other settings");
  }
  std::ranges::copy(message.values(), floats.begin());
  std::ranges::copy(message.slots(), floats.begin() + static_cast<ptrdiff_t>(width));
  return HeadOf(message);
}

StatusOr<EmbeddingRowHead> DecodeEmbeddingRowHead(std::string_view value) {
  MILLRACE_ASSIGN_OR_RETURN(const EmbeddingRow message, ParseRow(value));
  return HeadOf(message);
}

}  // namespace millrace
